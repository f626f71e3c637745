// Prints how long planning takes, one "key value" a line.
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/planner.h"

namespace medley {
namespace {

// GPT-2 at sequence 512 on devices of `kinds` speeds, `devices` in all, two devices a node, each with so much
// memory.
PlanningProblem Cluster(int devices, int kinds, int layers, Bytes memory) {
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
    // Matmul rates up to 64 times apart.
    const double flops = 200e9 * std::pow(4.0, 3.0 * (d % kinds) / std::max(2, kinds));
    DeviceCost cost{.name = absl::StrCat("node", d / 2, "/cpu", d % 2),
                    .kind = absl::StrCat("kind ", d % kinds),
                    .processor = d,
                    .room = {.memory = memory}};
    for (const int size : problem.micro_batch_sizes) {
      const double tokens = 512.0 * size, effort = 1 + 0.2 / size;
      const double layer = effort * tokens * 24 * 768 * 768 / flops,
                   head = effort * tokens * 2 * 768 * 50257 / flops;
      cost.times.push_back({{1e-4 * size, 1e-4 * size}, {layer, 2 * layer, layer}, {head, 2 * head}});
    }
    cost.update_seconds_per_parameter = 2e-9;
    cost.norm_seconds_per_parameter = 4e-10;
    cost.room.workspace = MiB(64);
    problem.devices.push_back(cost);
  }
  problem.links = DeviceLinks(devices, {LinkModel::Line(50e-6, 2e9), LinkModel::Line(50e-6, 1.2e9)});
  return problem;
}

// The processor time of this process: others on the machine do not count.
double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// A cluster on which little or nothing fits as it is: plans may save memory.
void MeasureTight(const std::string& name, PlanningProblem problem) {
  problem.constraints.saves_memory = true;
  const double start = CpuSeconds();
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  std::printf("%s_planning_seconds %.3f\n", name.c_str(), CpuSeconds() - start);
  if (!chosen.ok()) {
    std::printf("%s_error %s\n", name.c_str(), chosen.status().ToString().c_str());
    return;
  }
  std::printf("%s_simulated_plans %lld\n", name.c_str(), static_cast<long long>(chosen->simulated_plans));
  std::printf("%s_step_seconds %.6f\n", name.c_str(), chosen->step_seconds);
  std::printf("%s_plan %s\n", name.c_str(), Describe(chosen->plan).c_str());
  std::printf("%s_fitting %s\n", name.c_str(), chosen->fitting.c_str());
}

// The same with orders of passes that are made for the plans found.
void MeasureWithOrders(const std::string& name, PlanningProblem problem) {
  problem.constraints.synthesised_orders = true;
  const double start = CpuSeconds();
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  std::printf("%s_with_orders_planning_seconds %.3f\n", name.c_str(), CpuSeconds() - start);
  if (chosen.ok()) std::printf("%s_with_orders_step_seconds %.6f\n", name.c_str(), chosen->step_seconds);
}

void Measure(const std::string& name, const PlanningProblem& problem) {
  const double start = CpuSeconds();
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  const double seconds = CpuSeconds() - start;
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
  const double predicting = CpuSeconds();
  for (int i = 0; i < kPredictions; ++i) (void)PredictStepSeconds(problem, chosen->plan).ok();
  const double per_prediction = (CpuSeconds() - predicting) / kPredictions;
  std::printf("%s_prediction_microseconds %.1f\n", name.c_str(), per_prediction * 1e6);
  MeasureWithOrders(name, problem);
}

}  // namespace
}  // namespace medley

// Measures those clusters whose names begin as the argument says.
int main(int count, char** arguments) {
  const std::string wanted = count > 1 ? arguments[1] : "";
  for (const auto& [devices, kinds, layers] :
       {std::tuple(3, 3, 12), std::tuple(6, 3, 12), std::tuple(8, 3, 24), std::tuple(8, 8, 24),
        std::tuple(12, 2, 12), std::tuple(16, 4, 24)}) {
    const std::string name = absl::StrCat("devices_", devices, "_kinds_", kinds, "_layers_", layers);
    if (name.rfind(wanted, 0) == 0)
      medley::Measure(name, medley::Cluster(devices, kinds, layers, medley::GiB(16)));
  }
  for (const auto& [devices, kinds, layers, mebibytes] :
       {std::tuple(4, 2, 12, 700), std::tuple(6, 3, 12, 600), std::tuple(6, 3, 12, 700),
        std::tuple(8, 3, 24, 800), std::tuple(8, 3, 24, 600), std::tuple(8, 8, 24, 800)}) {
    const std::string name =
        absl::StrCat("tight_devices_", devices, "_kinds_", kinds, "_layers_", layers, "_mib_", mebibytes);
    if (name.rfind(wanted, 0) != 0) continue;
    medley::PlanningProblem problem = medley::Cluster(devices, kinds, layers, medley::MiB(mebibytes));
    medley::MeasureTight(name, problem);
    for (medley::DeviceCost& device : problem.devices)
      device.fetch_bytes_per_second = device.store_bytes_per_second = 6e9;
    medley::MeasureTight(name + "_with_copies", problem);
  }
  return 0;
}
