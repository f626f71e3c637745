#include "coordinator/planner/classes/class_fit.h"

#include <algorithm>
#include <functional>
#include <limits>
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
#include "runtime/base/bytes.h"
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

// How near one attempt has to be to what it lacks, and another one to be nearer.
Bytes Notable(Bytes lacking) {
  constexpr int64_t kPart = 1000;
  return {std::max<int64_t>(1, lacking.value / kPart)};
}

class Fitting {
 public:
  Fitting(const PlanningProblem& problem, int degree, bool saves, const std::atomic<bool>* stop)
      : problem_(problem), degree_(degree), saves_(saves), stop_(stop), classes_(DeviceClassesOf(problem)) {}

  // As if hosts with `degree` devices of a class each were there beside.
  void AddUnits(int device_class, int units) {
    more_of_class_ = device_class;
    more_units_ = units;
  }

  bool Fits() {
    return Any([&](StageTable& table, const std::vector<int>& units, int routes) {
      return AnyAttempt(table, units, routes,
                        [&](const std::vector<int>& kinds) { return HoldAll(table, kinds, {}); });
    });
  }

  std::optional<NearestFit> Nearest() {
    Any([&](StageTable& table, const std::vector<int>& units, int routes) {
      std::vector<std::vector<int>> attempts;
      AnyAttempt(table, units, routes, [&](const std::vector<int>& kinds) {
        attempts.push_back(kinds);
        return false;
      });
      // Those of the most stages first, each of which seldom needs more: the others are then soon told to be no nearer.
      for (auto kinds = attempts.rbegin(); kinds != attempts.rend() && !IsStopped(stop_); ++kinds)
        Approach(table, *kinds, routes);
      return nearest_ && nearest_->lacking <= Bytes{0};
    });
    return nearest_;
  }

 private:
  using LookAtUnits = std::function<bool(StageTable& table, const std::vector<int>& units, int routes)>;
  using LookAtKinds = std::function<bool(const std::vector<int>& kinds)>;

  // Of each number of routes, twice as many each time, until `look` is true; false: it never was.
  bool Any(const LookAtUnits& look) {
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
      most_layers_.clear();
      if (look(table, units, routes)) return true;
      if (IsStopped(stop_)) return false;
    }
    return false;
  }

  // By kind, those with the most memory first, or, where the price is limited, the cheapest.
  std::vector<int> Units(const StageTable& table) const {
    std::vector<int> units;
    for (int kind = 0; kind < static_cast<int>(table.kinds().size()); ++kind) {
      const int device_class = table.kinds()[kind].device_class;
      size_t count = device_class == more_of_class_ ? more_units_ : 0;
      for (const std::vector<int>& devices : classes_[device_class].hosts) count += devices.size() / degree_;
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
  bool AnyAttempt(const StageTable& table, const std::vector<int>& units, int routes,
                  const LookAtKinds& look) const {
    const PlanConstraints& allowed = problem_.constraints;
    int most_stages = std::min(
        {problem_.shape.model.blocks(), static_cast<int>(units.size()) / routes, kMostStagesByClasses});
    if (allowed.max_stages > 0) most_stages = std::min(most_stages, allowed.max_stages);
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
      if (look(kinds)) return true;
      std::reverse(kinds.begin(), kinds.end());
      if (look(kinds)) return true;
    }
    return false;
  }

  // Remembers what these stages lack, if it is less than what any before did.
  void Approach(StageTable& table, const std::vector<int>& kinds, int routes) {
    Bytes enough = MiB(1), too_little = {-1};
    if (nearest_) {
      enough = nearest_->lacking - Notable(nearest_->lacking);
      if (!HoldAll(table, kinds, enough)) return;
    }
    while (!HoldAll(table, kinds, enough) && !IsStopped(stop_)) enough = 2 * enough;
    while (enough - too_little > Notable(enough)) {
      const Bytes middle = {(enough.value + too_little.value) / 2};
      (HoldAll(table, kinds, middle) ? enough : too_little) = middle;
    }
    if (!HoldAll(table, kinds, enough)) return;  // it was stopped
    // From the first stage on, as many layers as they hold and others need not.
    const int stages = static_cast<int>(kinds.size());
    int left = problem_.shape.model.layers - std::max(0, stages - 2);
    NearestFit found{.lacking = {std::numeric_limits<int64_t>::min()},
                     .degree = degree_,
                     .routes = routes,
                     .stages = stages};
    for (int stage = 0; stage < stages; ++stage) {
      StageForm form{.kind = kinds[stage], .first = stage == 0, .from_end = stages - stage};
      const int least = LeastLayers(stage, stages);
      form.layers = std::min(least + left, MostLayers(table, form.kind, form.first, form.from_end, enough));
      left -= form.layers - least;
      const StageShortage shortage = table.LeastShortage(form);
      if (shortage.bytes <= found.lacking) continue;
      form.saving = shortage.saving;
      found.lacking = shortage.bytes;
      found.device_class = table.kinds()[form.kind].device_class;
      found.stage = form;
    }
    if (!nearest_ || found.lacking < nearest_->lacking) nearest_ = found;
  }

  // The embedding and the head may be alone.
  static int LeastLayers(int stage, int stages) { return stage == 0 || stage + 1 == stages ? 0 : 1; }

  // Whether stages of these kinds, with so much more memory, have room for all layers, each for what it must have at least.
  bool HoldAll(StageTable& table, const std::vector<int>& kinds, Bytes more) {
    const int stages = static_cast<int>(kinds.size());
    int layers = 0;
    for (int stage = 0; stage < stages; ++stage) {
      const int most = MostLayers(table, kinds[stage], stage == 0, stages - stage, more);
      if (most < LeastLayers(stage, stages)) return false;
      layers += most;
    }
    return layers >= problem_.shape.model.layers;
  }

  int MostLayers(StageTable& table, int kind, bool first, int from_end, Bytes more) {
    if (more != with_more_) {
      with_more_ = more;
      most_layers_.clear();
    }
    const auto [known, is_new] = most_layers_.try_emplace({kind, first, from_end}, -1);
    if (!is_new) return known->second;
    StageForm stage{.kind = kind, .first = first, .from_end = from_end};
    return known->second = GreatestThat(-1, problem_.shape.model.layers, [&](int layers) {
             stage.layers = layers;
             return table.LeastShortage(stage).bytes <= more;
           });
  }

  const PlanningProblem& problem_;
  const int degree_;
  const bool saves_;
  const std::atomic<bool>* const stop_;
  const std::vector<DeviceClass> classes_;
  int more_of_class_ = -1, more_units_ = 0;
  Bytes with_more_;
  std::map<std::tuple<int, bool, int>, int> most_layers_;  // of the present table, with so much more memory
  std::optional<NearestFit> nearest_;
};

}  // namespace

bool FitsByClasses(const PlanningProblem& problem, int degree, bool saves, const std::atomic<bool>* stop) {
  if (degree > 1 && !CanShareByClasses(problem.shape.model, degree)) return false;
  PlanningProblem shared = WithShares(problem, degree);
  shared.constraints.saves_memory = saves;
  return Fitting(shared, degree, saves, stop).Fits();
}

bool FitsInMeasuredUnits(const PlanningProblem& problem, const std::atomic<bool>* stop) {
  const int most = MostOnHost(DeviceClassesOf(problem));
  for (int degree = 1; degree <= most && !IsStopped(stop); ++degree) {
    if (Fitting(problem, degree, problem.constraints.saves_memory, stop).Fits()) return true;
  }
  return false;
}

std::optional<NearestFit> NearestByClasses(const PlanningProblem& problem, const std::atomic<bool>* stop) {
  std::optional<NearestFit> nearest;
  const int most = MostOnHost(DeviceClassesOf(problem));
  for (int degree = 1; degree <= most && !IsStopped(stop); ++degree) {
    const std::optional<NearestFit> found =
        Fitting(problem, degree, problem.constraints.saves_memory, stop).Nearest();
    if (found && (!nearest || found->lacking < nearest->lacking)) nearest = found;
  }
  return nearest;
}

std::optional<int> MoreDevicesToFit(const PlanningProblem& problem, const NearestFit& nearest,
                                    const std::atomic<bool>* stop) {
  Fitting fitting(problem, nearest.degree, problem.constraints.saves_memory, stop);
  const auto fits = [&](int units) {
    fitting.AddUnits(nearest.device_class, units);
    return fitting.Fits();
  };
  const int most = std::max(1, static_cast<int>(problem.devices.size()) / nearest.degree);
  if (!fits(most) || IsStopped(stop)) return std::nullopt;
  return nearest.degree * (1 + GreatestThat(0, most - 1, [&](int units) { return !fits(units); }));
}

}  // namespace medley
