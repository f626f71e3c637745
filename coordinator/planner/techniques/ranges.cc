#include "coordinator/planner/techniques/ranges.h"

#include <algorithm>
#include <vector>

namespace medley {
namespace {

// What the slowest rank of `unit` takes for all passes of some blocks, micro-batch by micro-batch.
struct BlockSeconds {
  double embedding = 0, layer = 0, head = 0;
};

BlockSeconds SecondsOf(const PlanningProblem& problem, const Unit& unit, int sequences) {
  BlockSeconds slowest;
  const auto size = std::find(problem.micro_batch_sizes.begin(), problem.micro_batch_sizes.end(), sequences);
  if (size == problem.micro_batch_sizes.end()) return slowest;
  const std::vector<ModelShare> shares = SharesOf(unit, problem.shape.model);
  const int layers = LayersOf(unit, problem.shape.model);
  // Of a layer, where not all are made again.
  const double again = unit.recomputed_layers > 0 ? static_cast<double>(unit.recomputed_layers) / layers : 1;
  for (size_t m = 0; m < unit.devices.size(); ++m) {
    const std::optional<RankCosts> costs =
        CostsOf(*FindDevice(problem, unit.devices[m]), problem.shape.model, shares[m]);
    if (!costs) continue;
    const BlockTimes& times = costs->times[size - problem.micro_batch_sizes.begin()];
    slowest.embedding = std::max(slowest.embedding, times.embedding.Seconds());
    slowest.layer = std::max(
        slowest.layer, times.layer.Seconds() + again * RecomputeSeconds(problem.shape.model, sequences,
                                                                        problem.shape.sequence, times.layer,
                                                                        unit.recompute));
    slowest.head = std::max(slowest.head, times.head.Seconds());
  }
  return slowest;
}

// One route's units in the order in which it comes to them first.
class RouteInRanges {
 public:
  RouteInRanges(const PlanningProblem& problem, const Plan& plan, const Route& route, int ranges,
                RangeOrder order)
      : model_(problem.shape.model), units_(route.units), ranges_(ranges), order_(order) {
    for (const UnitId u : units_) {
      layers_.push_back(LayersOf(plan.units[u], model_));
      seconds_.push_back(SecondsOf(problem, plan.units[u], route.micro_batch_sequences));
    }
    if (order == RangeOrder::kThereAndBack) Balance();
  }

  // Sets the ranges of the units of `plan`, and the units of `route`.
  void Write(Plan& plan, Route& route) const {
    route.units.clear();
    for (const UnitId u : units_) plan.units[u].chunks.clear();
    int block = 0;
    for (int round = 0; round < ranges_; ++round) {
      for (int i = 0; i < stages(); ++i) {
        const int s = StageOf(round, i);
        int blocks = LayersIn(s, round);
        const bool is_first = round == 0 && i == 0, is_last = round + 1 == ranges_ && i + 1 == stages();
        blocks += (is_first ? 1 : 0) + (is_last ? 1 : 0);
        if (blocks == 0) continue;
        Unit& unit = plan.units[units_[s]];
        if (!route.units.empty() && route.units.back() == units_[s]) {
          unit.chunks.back().end = block + blocks;
        } else {
          unit.chunks.push_back({block, block + blocks});
          route.units.push_back(units_[s]);
        }
        block += blocks;
      }
    }
  }

 private:
  int stages() const { return static_cast<int>(units_.size()); }
  int StageOf(int round, int i) const {
    return order_ == RangeOrder::kThereAndBack && round % 2 == 1 ? stages() - 1 - i : i;
  }
  int LayersIn(int s, int round) const {
    return (round + 1) * layers_[s] / ranges_ - round * layers_[s] / ranges_;
  }

  double WorkSeconds(int s, int layers) const {
    const int last = StageOf(ranges_ - 1, stages() - 1);
    return layers * seconds_[s].layer + (s == 0 ? seconds_[s].embedding : 0) +
           (s == last ? seconds_[s].head : 0);
  }

  // Layer by layer from the unit that has the most to do, as long as that is less for it.
  void Balance() {
    for (;;) {
      int most = 0, least = 0;
      for (int s = 0; s < stages(); ++s) {
        if (WorkSeconds(s, layers_[s]) > WorkSeconds(most, layers_[most])) most = s;
        if (WorkSeconds(s, layers_[s] + 1) < WorkSeconds(least, layers_[least] + 1)) least = s;
      }
      if (layers_[most] == 0 || WorkSeconds(least, layers_[least] + 1) >= WorkSeconds(most, layers_[most]))
        return;
      --layers_[most];
      ++layers_[least];
    }
  }

  const ModelConfig& model_;
  const std::vector<UnitId> units_;
  const int ranges_;
  const RangeOrder order_;
  std::vector<int> layers_;
  std::vector<BlockSeconds> seconds_;
};

// Of a unit that has other layers than before as many keep all as did, but that some are still made again. What it keeps in host
// memory is of all layers: who takes the plan asks how few do (WithFewestHomed).
void KeepAsMany(const ModelConfig& model, const Unit& before, Unit& unit) {
  unit.homed_layers = 0;
  if (before.recomputed_layers == 0) return;
  const int kept = LayersOf(before, model) - before.recomputed_layers, layers = LayersOf(unit, model);
  unit.recomputed_layers = layers == 0 ? 0 : std::clamp(layers - kept, 1, layers);
}

}  // namespace

std::optional<Plan> InRanges(const PlanningProblem& problem, const Plan& plan, int ranges, RangeOrder order) {
  if (!PassesEachUnitOnce(plan)) return std::nullopt;
  const auto has_windows = [](const Unit& unit) { return unit.has_windows(); };
  if (std::any_of(plan.units.begin(), plan.units.end(), has_windows)) return std::nullopt;
  Plan cut = plan;
  bool any = false;
  for (size_t r = 0; r < plan.routes.size(); ++r) {
    if (plan.routes[r].units.size() < 2) continue;
    RouteInRanges(problem, plan, plan.routes[r], ranges, order).Write(cut, cut.routes[r]);
    for (const UnitId u : plan.routes[r].units) KeepAsMany(problem.shape.model, plan.units[u], cut.units[u]);
    any = any || cut.routes[r].units.size() > plan.routes[r].units.size();
    for (const UnitId u : plan.routes[r].units) {
      if (cut.units[u].chunks.empty()) return std::nullopt;
    }
  }
  if (!any) return std::nullopt;
  return cut;
}

}  // namespace medley
