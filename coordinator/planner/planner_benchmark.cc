// Prints how long planning takes, one "key value" a line.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/planner.h"

namespace medley {
namespace {

// GPT-2 at sequence 512 on devices of `kinds` speeds, `devices` in all, two devices a node.
PlanningProblem Cluster(int devices, int kinds, int layers) {
  PlanningProblem problem;
  problem.shape.model = {.layers = layers,
                         .hidden = 768,
                         .heads = 12,
                         .feed_forward = 3072,
                         .vocabulary = 50257,
                         .context = 1024};
  problem.shape.sequence = 512;
  problem.shape.global_batch_sequences = 64;
  problem.micro_batch_sizes = {1, 2, 4};
  for (int d = 0; d < devices; ++d) {
    const double flops = 200e9 * std::pow(4.0, 3.0 * (d % kinds) / std::max(2, kinds));  // matmul rates up to 64 times apart
    DeviceCost cost{.name = absl::StrCat("node", d / 2, "/cpu", d % 2),
                    .kind = absl::StrCat("kind ", d % kinds),
                    .processor = d,
                    .memory = GiB(16)};
    for (const int size : problem.micro_batch_sizes) {
      const double tokens = 512.0 * size, effort = 1 + 0.2 / size;
      const double layer = effort * tokens * 24 * 768 * 768 / flops, head = effort * tokens * 2 * 768 * 50257 / flops;
      cost.times.push_back({{1e-4 * size, 1e-4 * size}, {layer, 2 * layer}, {head, 2 * head}});
    }
    cost.update_seconds_per_parameter = 2e-9;
    cost.norm_seconds_per_parameter = 4e-10;
    cost.workspace = MiB(64);
    problem.devices.push_back(cost);
  }
  problem.links.assign(devices, std::vector<LinkCost>(devices, {50e-6, 2e9, 1.2e9}));
  return problem;
}

void Measure(const std::string& name, const PlanningProblem& problem) {
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!chosen.ok()) {
    std::printf("%s_error %s\n", name.c_str(), chosen.status().ToString().c_str());
    return;
  }
  std::printf("%s_planning_seconds %.3f\n", name.c_str(), seconds);
  std::printf("%s_simulated_plans %lld\n", name.c_str(), static_cast<long long>(chosen->simulated_plans));
  std::printf("%s_step_seconds %.6f\n", name.c_str(), chosen->step_seconds);
  std::printf("%s_lower_bound_seconds %.6f\n", name.c_str(), chosen->lower_bound_seconds);
  std::printf("%s_proven_optimal %d\n", name.c_str(), chosen->proven_optimal ? 1 : 0);
  std::printf("%s_plan %s\n", name.c_str(), Describe(chosen->plan).c_str());

  constexpr int kPredictions = 200;
  const auto predicting = std::chrono::steady_clock::now();
  for (int i = 0; i < kPredictions; ++i) (void)PredictStepSeconds(problem, chosen->plan).ok();
  const double per_prediction =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - predicting).count() / kPredictions;
  std::printf("%s_prediction_microseconds %.1f\n", name.c_str(), per_prediction * 1e6);
}

}  // namespace
}  // namespace medley

int main() {
  medley::Measure("devices_3_kinds_3_layers_12", medley::Cluster(3, 3, 12));
  medley::Measure("devices_6_kinds_3_layers_12", medley::Cluster(6, 3, 12));
  medley::Measure("devices_8_kinds_3_layers_24", medley::Cluster(8, 3, 24));
  medley::Measure("devices_8_kinds_8_layers_24", medley::Cluster(8, 8, 24));
  medley::Measure("devices_16_kinds_4_layers_24", medley::Cluster(16, 4, 24));
  return 0;
}
