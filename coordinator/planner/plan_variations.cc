#include "coordinator/planner/plan_variations.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/techniques/fewest_layers.h"
#include "coordinator/planner/techniques/orders.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/planner/techniques/unit_order.h"
#include "coordinator/predictor/predict.h"
#include "runtime/base/counted.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/model_share.h"

namespace medley {
namespace {

// Of layers that live with their holders.
constexpr int kWindows = 2;

// With the passes of all units in the order that a schedule with a name gives them.
Plan UnderNamedSchedule(const Plan& plan) {
  Plan named = WithoutOrders(plan);
  if (plan.schedule != Schedule::kListed) named.schedule = plan.schedule;
  return named;
}

void ShardParameters(const ModelConfig& model, Plan& plan) {
  plan = WithoutOrders(std::move(plan));
  plan.schedule = Schedule::kGPipe;
  plan.shards_optimizer = true;
  for (Unit& unit : plan.units) {
    unit.optimizer_weight = 1;
    unit.KeepActivationsOnDevice();
    unit.window_layers = std::min(kWindows, LayersOf(unit, model));
    unit.layers_home = unit.window_layers > 0 ? LayersHome::kPeers : LayersHome::kHost;
  }
}

// Puts pairs of units together.
class Pairing {
 public:
  Pairing(const PlanningProblem& problem, const Plan& plan)
      : problem_(problem),
        plan_(UnderNamedSchedule(plan)),
        partner_(plan.units.size()),
        is_second_(plan.units.size()) {}

  absl::StatusOr<Plan> Run() {
    if (!PassesEachUnitOnce(plan_)) return absl::InvalidArgumentError("units are passed more than once");
    for (const Route& route : plan_.routes) {
      for (size_t s = 0; s + 1 < route.units.size(); ++s) {
        if (Suit(route.units[s], route.units[s + 1])) Pair(route.units[s], route.units[s + 1]);
      }
    }
    if (pairs_ == 0) PairReplicas();
    if (pairs_ == 0)
      return absl::InvalidArgumentError(
          "no two alike devices of a host hold neighbouring blocks of a route, or the same blocks");
    const int degree = 2 * static_cast<int>(plan_.units[first_paired_].devices.size());
    if (std::string objection = SharingObjection(problem_.shape.model, degree); !objection.empty())
      return absl::InvalidArgumentError(absl::StrCat("of ", degree, " devices: ", objection));
    Plan paired = Paired();
    for (Rank rank = 0; rank < RankCount(paired); ++rank) {
      const DeviceCost& device = *FindDevice(problem_, medley::DeviceOf(paired, rank));
      if (!CostsOf(device, problem_.shape.model, ShareOf(paired, rank, problem_.shape.model)))
        return absl::InvalidArgumentError(
            absl::StrCat(device.name, " was not measured with a share of the width among ",
                         paired.units[PlaceOf(paired, rank).unit].devices.size(), " devices"));
    }
    return paired;
  }

 private:
  const DeviceCost& DeviceOf(UnitId unit) const {
    return *FindDevice(problem_, plan_.units[unit.value()].devices.front());
  }

  // Whether two units may become one.
  bool Suit(UnitId a, UnitId b) const {
    const Unit &one = plan_.units[a.value()], &other = plan_.units[b.value()];
    const auto bare = [](const Unit& unit) { return unit.chunks.size() == 1 && unit.shares.empty(); };
    return !partner_[a.value()] && !partner_[b.value()] && bare(one) && bare(other) &&
           one.devices.size() == other.devices.size() && DeviceOf(a).host >= 0 &&
           DeviceOf(a).host == DeviceOf(b).host && DeviceOf(a).kind == DeviceOf(b).kind;
  }

  void Pair(UnitId a, UnitId b) {
    if (pairs_++ == 0) first_paired_ = a.value();
    partner_[a.value()] = b;
    partner_[b.value()] = a;
    is_second_[b.value()] = true;
  }

  void PairReplicas() {
    std::map<std::tuple<int, std::string, int>, int> waiting;  // routes, by host, kind and size
    for (int r = 0; r < static_cast<int>(plan_.routes.size()); ++r) {
      const Route& route = plan_.routes[r];
      if (route.units.size() != 1 || DeviceOf(route.units[0]).host < 0) continue;
      const DeviceCost& device = DeviceOf(route.units[0]);
      const auto [place, is_first] =
          waiting.try_emplace({device.host, device.kind, route.micro_batch_sequences}, r);
      if (is_first) continue;
      Route& other = plan_.routes[place->second];
      waiting.erase(place);
      if (!Suit(other.units[0], route.units[0])) continue;
      Pair(other.units[0], route.units[0]);
      other.micro_batches += route.micro_batches;
      plan_.routes[r].micro_batches = 0;
    }
  }

  Plan Paired() const {
    Plan paired = plan_;
    paired.units.clear();
    paired.routes.clear();
    for (const Route& route : plan_.routes) {
      if (route.micro_batches == 0) continue;
      Route& made = paired.routes.emplace_back(route);
      made.units.clear();
      for (const UnitId u : route.units) {
        if (is_second_[u.value()]) continue;
        made.units.push_back(static_cast<int>(paired.units.size()));
        Unit& unit = paired.units.emplace_back(plan_.units[u.value()]);
        if (!partner_[u.value()]) continue;
        const Unit& other = plan_.units[partner_[u.value()]->value()];
        unit.devices.insert(unit.devices.end(), other.devices.begin(), other.devices.end());
        unit.chunks[0].end = std::max(unit.chunks[0].end, other.chunks[0].end);
      }
    }
    return WithUnitsByHost(problem_, std::move(paired));
  }

  const PlanningProblem& problem_;
  Plan plan_;
  std::vector<std::optional<UnitId>> partner_;  // of each unit
  std::vector<bool> is_second_;                 // of its pair
  int pairs_ = 0, first_paired_ = 0;
};

// Of forward and backward of a micro-batch through all blocks.
double PassSeconds(const ModelConfig& model, const BlockTimes& times) {
  double seconds = 0;
  for (BlockId block = 0; block < model.blocks(); ++block) {
    const PassTimes& passes = TimesOf(times, model, block);
    seconds += passes.forward_seconds + passes.backward_seconds;
  }
  return seconds;
}

// The i-th of `parts` parts of `total` that differ by one at most, the larger ones first.
int EvenPart(int total, int parts, int i) { return total / parts + (i < total % parts ? 1 : 0); }

}  // namespace

absl::StatusOr<Plan> WithMoreTensorParallelism(const PlanningProblem& problem, const Plan& plan) {
  ASSIGN_OR_RETURN(Plan paired, Pairing(problem, plan).Run());
  for (Unit& unit : paired.units) unit.homed_layers = 0;
  return WithFewestHomed(problem, WithFewestRecomputed(problem, std::move(paired)));
}

absl::StatusOr<Plan> WithShardedParameters(const PlanningProblem& problem, const Plan& plan) {
  if (plan.routes.size() < 2) return absl::InvalidArgumentError("no two units hold the same layers");
  if (!PassesEachUnitOnce(plan)) return absl::InvalidArgumentError("units are passed more than once");
  Plan sharded = plan;
  ShardParameters(problem.shape.model, sharded);
  return WithFewestRecomputed(problem, WithUnitsByHost(problem, std::move(sharded)));
}

absl::StatusOr<Plan> FullyShardedReplicas(const PlanningProblem& problem, int micro_batch_sequences) {
  const auto size =
      std::find(problem.micro_batch_sizes.begin(), problem.micro_batch_sizes.end(), micro_batch_sequences);
  const size_t place = size - problem.micro_batch_sizes.begin();
  std::vector<double> speeds;
  Plan plan;
  for (const DeviceCost& device : problem.devices) {
    if (place >= device.times.size()) continue;
    speeds.push_back(1 / PassSeconds(problem.shape.model, device.times[place]));
    plan.units.push_back({.devices = {device.name},
                          .chunks = {{0, problem.shape.model.blocks()}},
                          .activations = device.activations});
  }
  const int devices = static_cast<int>(speeds.size()),
            micro_batches = problem.shape.global_batch_sequences / micro_batch_sequences;
  if (devices < 2 || micro_batches < devices)
    return absl::InvalidArgumentError(absl::StrCat(micro_batches == 1 ? "there is " : "there are ",
                                                   Counted(micro_batches, "micro-batch", "micro-batches"),
                                                   " for ", Counted(devices, "device")));
  const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  int left = micro_batches;
  for (int d = 0; d < devices; ++d) {
    const int own = std::max(1, static_cast<int>(micro_batches * speeds[d] / all));
    plan.routes.push_back({{d}, own, micro_batch_sequences});
    left -= own;
  }
  // What is left over goes to those that are done first with it; what is too much is taken from those that are done last.
  const int more = left > 0 ? 1 : -1;
  std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> next;
  const auto enter = [&](int d) {
    const int own = plan.routes[d].micro_batches;
    if (more > 0) next.emplace((own + 1) / speeds[d], d);
    if (more < 0 && own > 1) next.emplace(-own / speeds[d], d);
  };
  for (int d = 0; d < devices; ++d) enter(d);
  for (; left != 0; left -= more) {
    const int d = next.top().second;
    next.pop();
    plan.routes[d].micro_batches += more;
    enter(d);
  }
  ShardParameters(problem.shape.model, plan);
  return WithUnitsByHost(problem, std::move(plan));
}

absl::StatusOr<Plan> EvenGrid(const PlanningProblem& problem, int stages, int degree,
                              int micro_batch_sequences) {
  const ModelConfig& model = problem.shape.model;
  if (stages > model.blocks())
    return absl::InvalidArgumentError(absl::StrCat(model.blocks(), " blocks for ", stages, " stages"));
  if (std::string objection = degree > 1 ? SharingObjection(model, degree) : ""; !objection.empty())
    return absl::InvalidArgumentError(objection);
  const int routes = static_cast<int>(problem.devices.size()) / (stages * degree),
            micro_batches = problem.shape.global_batch_sequences / micro_batch_sequences;
  if (routes == 0 || micro_batches < routes)
    return absl::InvalidArgumentError(absl::StrCat(Counted(micro_batches, "micro-batch", "micro-batches"),
                                                   " for ", Counted(routes, "route")));
  Plan plan;
  int device = 0;
  for (int r = 0; r < routes; ++r) {
    Route& route = plan.routes.emplace_back();
    route.micro_batches = EvenPart(micro_batches, routes, r);
    route.micro_batch_sequences = micro_batch_sequences;
    BlockId first = 0;
    for (int s = 0; s < stages; ++s) {
      const BlockId end = first + EvenPart(model.blocks(), stages, s);
      Unit unit{.chunks = {{first, end}}, .activations = problem.devices[device].activations};
      for (int member = 0; member < degree; ++member) unit.devices.push_back(problem.devices[device++].name);
      route.units.push_back(static_cast<int>(plan.units.size()));
      plan.units.push_back(std::move(unit));
      first = end;
    }
  }
  return plan;
}

}  // namespace medley
