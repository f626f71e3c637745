#include "coordinator/planner/random_problem.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "runtime/model/parameters.h"
#include "runtime/program/memory.h"

namespace medley {
namespace {

class Generator {
 public:
  Generator(uint64_t seed, const RandomProblemOptions& options) : random_(seed), options_(options) {}

  PlanningProblem Run() {
    MakeShape();
    const int devices = Integer(options_.min_devices, options_.max_devices);
    const int kinds = Integer(1, std::min(devices, options_.kinds));
    const bool tight = options_.memory == RandomMemory::kSometimesTight && Integer(0, 2) == 0;
    const bool shared = options_.processors == RandomProcessors::kSometimesShared && Integer(0, 2) == 0;
    std::vector<DeviceCost> kind_costs;
    for (int k = 0; k < kinds; ++k) kind_costs.push_back(MakeKind(k, tight));
    std::vector<int> kind_of;
    for (int d = 0; d < devices; ++d) {
      kind_of.push_back(d < kinds ? d : Integer(0, kinds - 1));
      DeviceCost device = kind_costs[kind_of[d]];
      device.name = absl::StrCat("n/", d);
      device.processor = shared ? Integer(0, devices - 1) : d;
      problem_.devices.push_back(device);
    }
    MakeLinks(kinds, kind_of);
    return problem_;
  }

 private:
  double Real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  int Integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void MakeShape() {
    const int hidden = 4 * Integer(1, 3);
    problem_.shape.model = {.layers = Integer(1, options_.max_layers),
                            .hidden = hidden,
                            .heads = 2,
                            .feed_forward = 4 * hidden,
                            .vocabulary = Integer(8, 200),
                            .context = 8};
    if (Integer(0, 2) == 0) {  // no tied embedding to reduce last, or nothing else in the embedding's block
      problem_.shape.model.family = ModelFamily::kLlama;
      problem_.shape.model.tied_head = Integer(0, 1) == 0;
    }
    problem_.shape.sequence = 8;
    const int micro_batches = Integer(1, options_.max_micro_batches);
    problem_.shape.global_batch_sequences = micro_batches;
    problem_.micro_batch_sizes = {1};
    if (micro_batches % 2 == 0 && Integer(0, 1) == 0) problem_.micro_batch_sizes.push_back(2);
    if (Integer(0, 2) == 0) problem_.constraints.schedules = {Schedule::kGPipe};
    if (Integer(0, 2) == 0) problem_.constraints.schedules = {Schedule::kOneForwardOneBackward};
  }

  DeviceCost MakeKind(int kind, bool tight) {
    const double speed = Real(0.5, 3);
    const double parameters = static_cast<double>(ModelElements(problem_.shape.model));
    DeviceCost cost{.kind = absl::StrCat("kind ", kind)};
    for (const int size : problem_.micro_batch_sizes) {
      const double scale = (Real(0.2, 0.5) + size) / speed;
      cost.times.push_back({.embedding = {0.1 * scale * Real(0, 1), 0.1 * scale * Real(0, 1)},
                            .layer = {scale, 2 * scale * Real(0.8, 1.2)},
                            .head = {scale * Real(0, 2), scale * Real(0, 3)}});
    }
    cost.update_seconds_per_parameter = Real(0, 1) / parameters;
    cost.norm_seconds_per_parameter = Real(0, 0.5) / parameters;
    cost.workspace = Bytes{Integer(0, 1000)};
    cost.copy_bytes_per_parameter = Integer(0, 1) * Real(0, 4);
    const ModelConfig& model = problem_.shape.model;
    const SlotCounts all = {.stash = problem_.shape.global_batch_sequences};
    const Bytes whole = MemoryOf(problem_.shape, {0, model.blocks()}, 1, all).total();
    const double share = tight ? Real(0.1, 1.2) : 100;
    cost.memory = {static_cast<int64_t>(static_cast<double>(whole.value) * share)};
    return cost;
  }

  void MakeLinks(int kinds, const std::vector<int>& kind_of) {
    const double message_bytes = 4.0 * problem_.shape.sequence * problem_.shape.model.hidden;
    const double model_bytes = 4.0 * static_cast<double>(ModelElements(problem_.shape.model));
    const double slowness = Integer(0, 3) == 0 ? 2 : 0.2;
    std::vector<std::vector<LinkCost>> between(kinds, std::vector<LinkCost>(kinds));
    for (int a = 0; a < kinds; ++a) {
      for (int b = 0; b <= a; ++b) {
        between[a][b] = {.latency_seconds = Integer(0, 1) * Real(0, 0.1),
                         .bytes_per_second = message_bytes / (slowness * Real(0.01, 1)),
                         .all_reduce_bytes_per_second = model_bytes / (slowness * Real(0.01, 3))};
        between[b][a] = between[a][b];
      }
    }
    const size_t devices = kind_of.size();
    problem_.links.assign(devices, std::vector<LinkCost>(devices));
    for (size_t a = 0; a < devices; ++a) {
      for (size_t b = 0; b < devices; ++b) problem_.links[a][b] = between[kind_of[a]][kind_of[b]];
    }
  }

  std::mt19937_64 random_;
  const RandomProblemOptions options_;
  PlanningProblem problem_;
};

}  // namespace

PlanningProblem RandomProblem(uint64_t seed, const RandomProblemOptions& options) {
  return Generator(seed, options).Run();
}

}  // namespace medley
