#include "coordinator/planner/classes/class_fit.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "coordinator/planner/classes/host_layers.h"
#include "coordinator/planner/classes/plan_by_class.h"
#include "coordinator/planner/classes/stage_table.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/predictor/device_classes.h"
#include "runtime/base/greatest_that.h"
#include "runtime/base/stop_flag.h"
#include "runtime/ir/model/model_share.h"

namespace medley {
namespace {

// With even shares of the width among `degree` devices for all that have none.
PlanningProblem WithShares(PlanningProblem problem, int degree) {
  if (degree == 1) return problem;
  const ModelConfig& model = problem.shape.model;
  const std::vector<ModelShare> shares = EvenShares(model, degree);
  for (DeviceCost& device : problem.devices) {
    for (const ModelShare& share : shares) {
      if (CostsOf(device, model, share)) continue;
      device.shares.push_back({.share = AtOrigin(share),
                               .room = device.room.LimitsAlone(),
                               .times = std::vector<BlockTimes>(problem.micro_batch_sizes.size())});
    }
  }
  return problem;
}

class Fitting {
 public:
  Fitting(const PlanningProblem& problem, int degree, bool saves, const std::atomic<bool>* stop)
      : problem_(problem), degree_(degree), saves_(saves), stop_(stop), classes_(DeviceClassesOf(problem)) {}

  bool Run() {
    const PlanConstraints& allowed = problem_.constraints;
    // Routes that share neither state nor, under GPipe, the batch need no less memory than one of them.
    const bool share = saves_ || ScheduleByClasses(allowed) == Schedule::kGPipe;
    int most_routes = share ? problem_.shape.global_batch_sequences / problem_.micro_batch_sizes[0] : 1;
    if (allowed.max_routes > 0) most_routes = std::min(most_routes, allowed.max_routes);
    StageMemories memories(problem_);
    for (int routes = 1; routes <= most_routes; routes *= 2) {
      StageTable table(problem_, classes_, memories, saves_ ? OwnShare(routes) : 1,
                       {.layers_on_hosts = saves_, .least_routes = routes, .only_degree = degree_});
      const std::vector<int> units = Units(table);
      if (units.empty() || routes > static_cast<int>(units.size())) return false;
      if (FitsOn(table, units, routes)) return true;
      if (IsStopped(stop_)) return false;
    }
    return false;
  }

 private:
  // By kind, those with the most memory first, or, where the price is limited, the cheapest.
  std::vector<int> Units(const StageTable& table) const {
    std::vector<int> units;
    for (int kind = 0; kind < static_cast<int>(table.kinds().size()); ++kind) {
      size_t count = 0;
      for (const std::vector<int>& devices : classes_[table.kinds()[kind].device_class].hosts)
        count += devices.size() / degree_;
      units.insert(units.end(), count, kind);
    }
    const bool by_price = problem_.constraints.most_price_per_hour > 0;
    std::stable_sort(units.begin(), units.end(), [&](int a, int b) {
      const double price = Price(table, a), other = Price(table, b);
      return by_price && price != other ? price < other : HasMore(table, a, b);
    });
    return units;
  }
  static bool HasMore(const StageTable& table, int a, int b) {
    return table.kinds()[a].room.LeftFor(0, 0) > table.kinds()[b].room.LeftFor(0, 0);
  }
  double Price(const StageTable& table, int kind) const {
    return degree_ * problem_.devices[table.kinds()[kind].devices[0]].price_per_hour;
  }

  // Of each number of stages, on the first of `units`, as many side by side as there are routes.
  bool FitsOn(StageTable& table, const std::vector<int>& units, int routes) {
    const PlanConstraints& allowed = problem_.constraints;
    int most_stages = std::min(
        {problem_.shape.model.blocks(), static_cast<int>(units.size()) / routes, kMostStagesByClasses});
    if (allowed.max_stages > 0) most_stages = std::min(most_stages, allowed.max_stages);
    most_layers_.clear();
    double price_per_hour = 0;
    for (int stages = 1; stages <= most_stages && !IsStopped(stop_); ++stages) {
      for (int unit = (stages - 1) * routes; unit < stages * routes; ++unit)
        price_per_hour += Price(table, units[unit]);
      if (!allowed.Allow(stages * routes * degree_, price_per_hour)) return false;
      // Of those side by side the one with the least memory.
      std::vector<int> used(units.begin(), units.begin() + stages * routes), kinds;
      if (allowed.most_price_per_hour > 0)
        std::stable_sort(used.begin(), used.end(), [&](int a, int b) { return HasMore(table, a, b); });
      for (int stage = 0; stage < stages; ++stage) kinds.push_back(used[(stage + 1) * routes - 1]);
      if (HoldAll(table, kinds)) return true;
      std::reverse(kinds.begin(), kinds.end());
      if (HoldAll(table, kinds)) return true;
    }
    return false;
  }

  // Whether stages of these kinds have room for all layers, each for what it must have at least.
  bool HoldAll(StageTable& table, const std::vector<int>& kinds) {
    const int stages = static_cast<int>(kinds.size());
    int layers = 0;
    for (int stage = 0; stage < stages; ++stage) {
      const bool is_end = stage == 0 || stage + 1 == stages;
      const int most = MostLayers(table, kinds[stage], stage == 0, stages - stage);
      if (most < (is_end ? 0 : 1)) return false;
      layers += most;
    }
    return layers >= problem_.shape.model.layers;
  }

  int MostLayers(StageTable& table, int kind, bool first, int from_end) {
    const auto [known, is_new] = most_layers_.try_emplace({kind, first, from_end}, -1);
    if (!is_new) return known->second;
    StageForm stage{.kind = kind, .first = first, .from_end = from_end};
    return known->second = GreatestThat(-1, problem_.shape.model.layers, [&](int layers) {
             stage.layers = layers;
             return table.LeastSaving(stage).has_value();
           });
  }

  const PlanningProblem& problem_;
  const int degree_;
  const bool saves_;
  const std::atomic<bool>* const stop_;
  const std::vector<DeviceClass> classes_;
  std::map<std::tuple<int, bool, int>, int> most_layers_;  // of the present table
};

}  // namespace

bool FitsByClasses(const PlanningProblem& problem, int degree, bool saves, const std::atomic<bool>* stop) {
  if (degree > 1 && !SharingObjection(problem.shape.model, degree).empty()) return false;
  PlanningProblem shared = WithShares(problem, degree);
  shared.constraints.saves_memory = saves;
  return Fitting(shared, degree, saves, stop).Run();
}

}  // namespace medley
