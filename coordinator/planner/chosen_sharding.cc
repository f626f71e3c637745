#include "coordinator/planner/chosen_sharding.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/planner/plan_variations.h"
#include "coordinator/planner/search.h"
#include "coordinator/planner/seconds_of_plan.h"
#include "coordinator/planner/techniques/fewest_layers.h"
#include "coordinator/planner/techniques/optimizer_shares.h"
#include "coordinator/planner/techniques/orders.h"
#include "coordinator/planner/techniques/unit_order.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// Sums of the same times in another order.
constexpr double kSame = 1e-9;

class Sharding {
 public:
  Sharding(const PlanningProblem& problem, const SearchLimits& limits, ChosenPlan& chosen)
      : problem_(problem),
        limits_(limits),
        chosen_(chosen),
        seconds_(problem),
        best_seconds_(chosen.step_seconds) {}

  void Run(const std::vector<PredictedPlan>& plans) {
    TryShared(chosen_.plan);  // a prediction or two, whatever time is left
    for (const PredictedPlan& plan : plans) TryShared(plan.plan);
    TryParameters();
    TryBySpeed();
    TakeBest();
    Bound();
  }

  // Of a plan by classes, where the optimizer's state is shared if that is faster.
  bool RunParameters() {
    TryParameters();
    TryBySpeed();
    return TakeBest();
  }

 private:
  // By so little no plan is said to be faster than another: what sharing might gain where sums take next to no time.
  static constexpr double kNothing = 1e-3;

  void TryParameters() {
    Try(WithShardedParameters(problem_, chosen_.plan), kParameters);
    for (const int size : problem_.micro_batch_sizes) {
      if (DividesBatch(problem_, size)) TryReplicas(problem_, size);
    }
    if (problem_.devices.size() <= kMostSearchedDevices) TryFewerReplicas();
  }

  // Where a step has few micro-batches, or updates take long, the slowest devices may be no help.
  void TryFewerReplicas() {
    std::vector<int> fastest;
    for (int d = 0; d < static_cast<int>(problem_.devices.size()); ++d) {
      if (!problem_.devices[d].times.empty()) fastest.push_back(d);
    }
    const auto layer_seconds = [&](int d) {
      const PassTimes& layer = problem_.devices[d].times.front().layer;
      return layer.forward_seconds + layer.backward_seconds;
    };
    std::stable_sort(fastest.begin(), fastest.end(),
                     [&](int a, int b) { return layer_seconds(a) < layer_seconds(b); });
    while (fastest.size() > 2) {
      fastest.pop_back();
      std::vector<int> devices = fastest;
      std::sort(devices.begin(), devices.end());
      const PlanningProblem few = OnDevices(problem_, devices);
      for (const int size : few.micro_batch_sizes) {
        if (DividesBatch(few, size)) TryReplicas(few, size);
      }
    }
  }

  // Of all devices of `problem`, which are of the one that is planned for, in micro-batches of one size.
  void TryReplicas(const PlanningProblem& problem, int size) {
    const absl::StatusOr<Plan> sharded = FullyShardedReplicas(problem, size);
    if (!sharded.ok() || !Allows(*sharded)) return;
    Try(sharded, kParameters);
    Plan replicas = *sharded;
    replicas.schedule = problem_.constraints.schedules.front();
    for (Unit& unit : replicas.units) {
      unit.window_layers = 0;
      unit.layers_home = LayersHome::kHost;
    }
    Try(std::move(replicas), kOptimizer);
  }

  // False: none is faster.
  bool TakeBest() {
    if (best_.units.empty() || best_seconds_ >= (1 - kSame) * chosen_.step_seconds) return false;
    std::string said = absl::StrFormat("replicas share %s%s, by which a step takes %.2g %% less", what_,
                                       is_by_speed_ ? ", the faster ones more" : "",
                                       100 * (1 - best_seconds_ / chosen_.step_seconds));
    // What was said of another plan is no reason of this one.
    const auto is_of = [&](const Plan& shared) {
      return best_ == shared || best_ == WithOptimizerSharesBySpeed(problem_, shared);
    };
    const bool is_same = is_of(*WithSharedOptimizer(chosen_.plan)) ||
                         is_of(*WithSharedOptimizer(chosen_.plan, /*by_host=*/false));
    if (!is_same) chosen_.fitting.clear();
    if (!is_same) chosen_.orders.clear();
    chosen_.plan = std::move(best_);
    chosen_.step_seconds = best_seconds_;
    chosen_.fitting = chosen_.fitting.empty() ? std::move(said) : absl::StrCat(chosen_.fitting, "; ", said);
    return true;
  }

  // What was proven of plans that share nothing holds of all where none of several routes could be faster if all devices together
  // updated whatever one of them holds, sums were scattered as fast as any ring can and gathers hid behind forwards, and memory were enough for what sharing leaves of it,
  // in buffers of any size.
  void Bound() {
    if (chosen_.lower_bound_seconds <= 0 || problem_.devices.size() < 2 ||
        problem_.constraints.max_routes == 1)
      return;
    PlanningProblem relaxed = problem_;
    relaxed.constraints.saves_memory = false;
    relaxed.charges_least_scatters = true;
    const Bytes shared = (4 * SizeOf(Dtype::kF32)) * ModelElements(problem_.shape.model);
    for (DeviceCost& device : relaxed.devices) {
      device.norm_seconds_per_parameter = OfAllTogether(&DeviceCost::norm_seconds_per_parameter);
      device.update_seconds_per_parameter = OfAllTogether(&DeviceCost::update_seconds_per_parameter);
      device.room.memory += shared;
      device.room.largest_buffer = {};  // parts that are shared are smaller
    }
    const absl::StatusOr<ChosenPlan> bound =
        Search(relaxed, SearchSpace{.min_routes = 2}, limits_.OfComparison()).Run();
    if (absl::IsResourceExhausted(bound.status())) return;  // none of several routes
    chosen_.lower_bound_seconds =
        bound.ok() ? std::min({chosen_.lower_bound_seconds, bound->lower_bound_seconds, chosen_.step_seconds})
                   : 0;
    chosen_.proven_optimal =
        chosen_.proven_optimal && chosen_.lower_bound_seconds >= (1 - kNothing) * chosen_.step_seconds;
  }

  // What a parameter takes if all devices work on as many as they can.
  double OfAllTogether(double DeviceCost::*seconds_per_parameter) const {
    double parameters_per_second = 0;
    for (const DeviceCost& device : problem_.devices)
      parameters_per_second += 1 / (device.*seconds_per_parameter);
    return 1 / parameters_per_second;  // 0, where one takes no time
  }

  static constexpr char kOptimizer[] = "the optimizer's state",
                        kParameters[] = "the optimizer's state, gradients and parameters of layers";

  void TryShared(const Plan& plan) {
    Try(WithSharedOptimizer(plan), kOptimizer);
    // Of many devices predictions know no other order.
    if (problem_.devices.size() <= kMostSearchedDevices)
      Try(WithSharedOptimizer(plan, /*by_host=*/false), kOptimizer);
  }

  absl::StatusOr<Plan> WithSharedOptimizer(Plan plan, bool by_host = true) const {
    plan.shards_optimizer = true;
    plan.post_validation = false;
    for (Unit& unit : plan.units) unit.forwards_ahead = -1;
    if (by_host) plan = WithUnitsByHost(problem_, std::move(plan));
    return WithFewestRecomputed(problem_, std::move(plan));
  }

  bool Allows(const Plan& replicas) const {
    const PlanConstraints& constraints = problem_.constraints;
    const int routes = static_cast<int>(replicas.routes.size());
    return (constraints.max_routes == 0 || routes <= constraints.max_routes) &&
           constraints.Allow(routes, PricePerHour(problem_, replicas));
  }

  void Try(const absl::StatusOr<Plan>& plan, const char* what) {
    if ((limits_.stopped() && std::exchange(tried_, true)) || !plan.ok() || plan->routes.size() < 2 ||
        *plan == chosen_.plan)
      return;
    const std::vector<Schedule>& allowed = problem_.constraints.schedules;
    if (plan->schedule != Schedule::kListed &&
        std::find(allowed.begin(), allowed.end(), plan->schedule) == allowed.end())
      return;
    ++chosen_.simulated_plans;
    const absl::StatusOr<double> seconds = seconds_.Of(*plan);
    // What shares more has to be gathered for each pass, and is taken where that says more.
    const double below = (1 - GainOf(what)) * best_seconds_;
    if (!seconds.ok() || *seconds >= std::max(below, nearest_seconds_) || !FitsMemory(problem_, *plan))
      return;
    if (*seconds < nearest_seconds_) {
      nearest_ = *plan;
      nearest_seconds_ = *seconds;
      what_is_nearest_ = what;
    }
    if (*seconds >= below) return;
    best_ = *plan;
    best_seconds_ = *seconds;
    what_ = what;
  }

  // Even shares may be what keeps the nearest from being faster.
  void TryBySpeed() {
    Plan by_speed = WithOptimizerSharesBySpeed(problem_, nearest_);
    if (by_speed == nearest_ || by_speed == chosen_.plan) return;
    ++chosen_.simulated_plans;
    const absl::StatusOr<double> seconds = seconds_.Of(by_speed);
    const double gain = best_ == nearest_ ? kSame : GainOf(what_is_nearest_);
    if (!seconds.ok() || *seconds >= (1 - gain) * best_seconds_ || !FitsMemory(problem_, by_speed)) return;
    best_ = std::move(by_speed);
    best_seconds_ = *seconds;
    what_ = what_is_nearest_;
    is_by_speed_ = true;
  }

  static double GainOf(const char* what) { return what == kParameters ? kLeastGain : 0; }

  const PlanningProblem& problem_;
  const SearchLimits& limits_;
  ChosenPlan& chosen_;
  SecondsOfPlans seconds_;
  bool tried_ = false;
  Plan best_;
  double best_seconds_;
  const char* what_ = "";
  bool is_by_speed_ = false;
  Plan nearest_;  // of all that were tried, faster or not
  double nearest_seconds_ = std::numeric_limits<double>::infinity();
  const char* what_is_nearest_ = "";
};

}  // namespace

bool ChooseOptimizerShares(const PlanningProblem& problem, ChosenPlan& chosen) {
  Plan by_speed = WithOptimizerSharesBySpeed(problem, chosen.plan);
  if (by_speed == chosen.plan) return false;
  // Both by the same prediction, which may be another one than that by which the plan was chosen.
  SecondsOfPlans predicted(problem);
  chosen.simulated_plans += 2;
  const absl::StatusOr<double> seconds = predicted.Of(by_speed), before_seconds = predicted.Of(chosen.plan);
  if (!seconds.ok() || !before_seconds.ok() || *seconds >= (1 - kSame) * *before_seconds ||
      !FitsMemory(problem, by_speed))
    return false;
  chosen.plan = std::move(by_speed);
  chosen.step_seconds = *seconds;
  return true;
}

void ChooseSharding(const PlanningProblem& problem, const std::vector<PredictedPlan>& plans,
                    const SearchLimits& limits, ChosenPlan& chosen) {
  if (problem.constraints.saves_memory) Sharding(problem, limits, chosen).Run(plans);
}

bool ChooseShardedParameters(const PlanningProblem& problem, const SearchLimits& limits, ChosenPlan& chosen) {
  return problem.constraints.saves_memory && Sharding(problem, limits, chosen).RunParameters();
}

}  // namespace medley
