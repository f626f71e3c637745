#include "coordinator/planner/random_problem.h"

#include <algorithm>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/memory.h"

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
    if (options_.hosts == RandomHosts::kSometimesShared && Integer(0, 2) == 0) MakeHosts();
    if (Integer(0, 2) == 0) problem_.forced_all_reduce = static_cast<CollectiveAlgorithm>(Integer(0, 3));
    if (Integer(0, 4) == 0) problem_.wire_bytes_per_element = 2;
    if (options_.slowdowns == RandomSlowdowns::kSometimes && Integer(0, 1) == 0) MakeSlowdowns();
    if (options_.prices == RandomPrices::kWithLimits) MakePrices();
    if (options_.hosts == RandomHosts::kSometimesShared && Integer(0, 2) == 0) MakeCards();
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
    if (Integer(0, 2) == 0) cost.activations = Dtype::kBf16;
    for (const int size : problem_.micro_batch_sizes) {
      const double scale = (Real(0.2, 0.5) + size) / speed;
      const double embedding = 0.1 * scale * Real(0, 1), backward = 2 * scale * Real(0.8, 1.2);
      cost.times.push_back({.embedding = {0.1 * scale * Real(0, 1), embedding, embedding},
                            .layer = {scale, backward, backward * Real(0.2, 0.7)},
                            .head = {scale * Real(0, 2), scale * Real(0, 3)}});
    }
    cost.update_seconds_per_parameter = Real(0, 1) / parameters;
    cost.norm_seconds_per_parameter = Real(0, 0.5) / parameters;
    cost.room.workspace = Bytes{Integer(0, 1000)};
    const int sizes = static_cast<int>(problem_.micro_batch_sizes.size());
    for (int i = 0; i < sizes; ++i) {
      const Bytes of_size = {(i + 1) * cost.room.workspace.value / sizes};
      cost.room.workspace_by_size.push_back({problem_.micro_batch_sizes[i], of_size});
    }
    cost.room.copy_bytes_per_parameter = Integer(0, 1) * Real(0, 4);
    const ModelConfig& model = problem_.shape.model;
    const BufferCounts all = {.stash = {problem_.shape.global_batch_sequences}};
    const Bytes whole = MemoryOf(model, problem_.shape.sequence, {{0, model.blocks()}}, 1, all).total();
    const double share = tight ? Real(0.1, 1.2) : 100;
    cost.room.memory = {static_cast<int64_t>(static_cast<double>(whole.value) * share)};
    return cost;
  }

  // Takes about `seconds` for `bytes`: a line, or now and then lines that bend near there.
  LinkModel Bent(double latency_seconds, double bytes, double seconds) {
    if (Integer(0, 2) > 0) return LinkModel::Line(latency_seconds, bytes / seconds);
    LinkModel model{{{bytes * Real(0, 0.01), latency_seconds}}};
    for (int i = Integer(1, 3); i > 0; --i) {
      const LinkPoint last = model.points.back();
      const double more = bytes * Real(0.05, 0.7);
      model.points.push_back(
          {last.bytes + more, last.seconds + more / bytes * seconds * Integer(0, 4) * Real(0.2, 0.6)});
    }
    return model;
  }

  void MakeLinks(int kinds, const std::vector<int>& kind_of) {
    const double message_bytes = 4.0 * problem_.shape.sequence * problem_.shape.model.hidden;
    const double model_bytes = 4.0 * static_cast<double>(ModelElements(problem_.shape.model));
    const double slowness = Integer(0, 3) == 0 ? 2 : 0.2;
    std::vector<std::vector<LinkCost>> between(kinds, std::vector<LinkCost>(kinds));
    for (int a = 0; a < kinds; ++a) {
      for (int b = 0; b <= a; ++b) {
        const double latency_seconds = Integer(0, 1) * Real(0, 0.1);
        between[a][b] = {.transfer = Bent(latency_seconds, message_bytes, slowness * Real(0.01, 1)),
                         .exchange = Bent(latency_seconds, model_bytes, slowness * Real(0.01, 3))};
        between[b][a] = between[a][b];
      }
    }
    const size_t devices = kind_of.size();
    problem_.links = DeviceLinks(static_cast<int>(devices));
    for (size_t a = 0; a < devices; ++a) {
      for (size_t b = 0; b < a; ++b) problem_.links.Set(a, b, between[kind_of[a]][kind_of[b]]);
    }
  }

  // Makes hosts of two devices each, whose link is several times faster than others.
  void MakeHosts() {
    const double factor = Real(0.05, 0.5);
    for (size_t a = 0; a < problem_.devices.size(); ++a) {
      problem_.devices[a].host = static_cast<int>(a / 2);
      const size_t b = a ^ 1;
      if (b >= problem_.devices.size() || b < a) continue;
      LinkCost& link = problem_.links.Mutable(a, b);
      for (LinkModel* model : {&link.transfer, &link.exchange}) {
        for (LinkPoint& point : model->points) point.seconds *= factor;
      }
    }
  }

  // By kind, as a host's devices have them; they may have been measured beside one that is not in the
  // problem. Where devices have no host yet, all are on one.
  void MakeSlowdowns() {
    std::map<std::string, double> by_kind;
    std::map<std::string, int> cores_by_kind;
    const int not_planned_with = Integer(0, 1);
    for (DeviceCost& device : problem_.devices) {
      if (device.host < 0) device.host = 1000;
      device.cores = cores_by_kind.emplace(device.kind, Integer(0, 2)).first->second;
      const double factor = by_kind.emplace(device.kind, 1 + Integer(0, 2) * Real(0, 0.5)).first->second;
      const auto on_host =
          std::count_if(problem_.devices.begin(), problem_.devices.end(),
                        [&](const DeviceCost& d) { return d.host == device.host || d.host < 0; });
      device.shared_with = static_cast<int>(on_host) - 1 + not_planned_with;
      if (device.shared_with == 0) continue;
      device.shared_slowdown = factor;
      device.shared_update_slowdown = factor > 1 ? 2 : 1;
    }
  }

  void MakeCards() {
    std::map<int, int> by_host;
    for (DeviceCost& device : problem_.devices)
      device.network_cards = device.host < 0 ? 1 : by_host.emplace(device.host, Integer(0, 2)).first->second;
  }

  void MakePrices() {
    std::map<std::string, double> by_kind;
    double all_per_hour = 0;
    for (DeviceCost& device : problem_.devices) {
      const double price = std::min(1, Integer(0, 4)) * Real(0.5, 4);
      device.price_per_hour = by_kind.emplace(device.kind, price).first->second;
      all_per_hour += device.price_per_hour;
    }
    const int limits = Integer(0, 2);
    if (limits != 0) problem_.constraints.most_price_per_hour = all_per_hour * Real(0.05, 1);
    if (limits != 1)
      problem_.constraints.most_devices = Integer(1, static_cast<int>(problem_.devices.size()));
  }

  std::mt19937_64 random_;
  const RandomProblemOptions options_;
  PlanningProblem problem_;
};

}  // namespace

PlanningProblem RandomProblem(uint64_t seed, const RandomProblemOptions& options) {
  return Generator(seed, options).Run();
}

PlanningProblem SmallProblem(uint64_t seed) {
  PlanningProblem problem = RandomProblem(seed, {.min_devices = 2,
                                                 .max_devices = 6,
                                                 .kinds = 3,
                                                 .max_layers = 2,
                                                 .max_micro_batches = 8,
                                                 .processors = RandomProcessors::kOwn,
                                                 .hosts = RandomHosts::kOwn});
  problem.constraints.saves_memory = true;
  return problem;
}

PlanningProblem UnevenPipeline() {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = 3, .hidden = 8, .heads = 1, .feed_forward = 32, .vocabulary = 10, .context = 16};
  problem.shape.sequence = 16;
  problem.shape.global_batch_sequences = 6;
  problem.micro_batch_sizes = {1};
  for (const double seconds : {1.0, 1.3, 1.6}) {
    const int number = static_cast<int>(problem.devices.size());
    problem.devices.push_back(
        {.name = absl::StrCat("n/", number),
         .kind = absl::StrCat("kind ", number),
         .processor = number,
         .room = {.memory = GiB(1)},
         .times = {{.embedding = {0, 0}, .layer = {seconds, 2 * seconds, seconds}, .head = {0, 0}}}});
  }
  problem.links = DeviceLinks(3, {LinkModel::Line(0.05, 1e9), LinkModel::Line(100, 1e9)});
  problem.constraints.max_routes = 1;
  problem.constraints.synthesised_orders = true;
  return problem;
}

}  // namespace medley
