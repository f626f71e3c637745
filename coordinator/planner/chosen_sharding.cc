#include "coordinator/planner/chosen_sharding.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/planner/plan_variations.h"
#include "coordinator/planner/search.h"
#include "coordinator/planner/seconds_of_plan.h"
#include "coordinator/planner/techniques/orders.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

class Sharding {
 public:
  Sharding(const PlanningProblem& problem, const SearchLimits& limits, ChosenPlan& chosen)
      : problem_(problem),
        limits_(limits),
        chosen_(chosen),
        seconds_(problem),
        best_seconds_(chosen.step_seconds) {}

  void Run(const std::vector<PredictedPlan>& plans) {
    Try(WithSharedOptimizer(chosen_.plan), kOptimizer);  // one prediction, whatever time is left
    for (const PredictedPlan& plan : plans) Try(WithSharedOptimizer(plan.plan), kOptimizer);
    TryParameters();
    TakeBest();
    Bound();
  }

  // Of a plan by classes, where the optimizer's state is shared if that is faster.
  bool RunParameters() {
    TryParameters();
    return TakeBest();
  }

 private:
  // Sums of the same times in another order.
  static constexpr double kSame = 1e-9;
  // By so little no plan is said to be faster than another: what sharing might gain where sums take next to no time.
  static constexpr double kNothing = 1e-3;

  void TryParameters() {
    Try(WithShardedParameters(problem_, chosen_.plan), kParameters);
    for (const int size : problem_.micro_batch_sizes) {
      if (!DividesBatch(problem_, size)) continue;
      const absl::StatusOr<Plan> sharded = FullyShardedReplicas(problem_, size);
      if (!sharded.ok() || !Allows(*sharded)) continue;
      Try(sharded, kParameters);
      Plan replicas = *sharded;
      replicas.schedule = problem_.constraints.schedules.front();
      for (Unit& unit : replicas.units) {
        unit.window_layers = 0;
        unit.layers_home = LayersHome::kHost;
      }
      Try(std::move(replicas), kOptimizer);
    }
  }

  // False: none is faster.
  bool TakeBest() {
    if (best_.units.empty() || best_seconds_ >= (1 - kSame) * chosen_.step_seconds) return false;
    std::string said = absl::StrFormat("replicas share %s, by which a step takes %.2g %% less", what_,
                                       100 * (1 - best_seconds_ / chosen_.step_seconds));
    // What was said of another plan is no reason of this one.
    const bool is_same = best_ == *WithSharedOptimizer(chosen_.plan);
    if (!is_same) chosen_.fitting.clear();
    if (!is_same) chosen_.orders.clear();
    chosen_.plan = std::move(best_);
    chosen_.step_seconds = best_seconds_;
    chosen_.fitting = chosen_.fitting.empty() ? std::move(said) : absl::StrCat(chosen_.fitting, "; ", said);
    return true;
  }

  // What was proven of plans that share nothing holds of all where none of several routes could be faster if all devices together
  // updated whatever one of them holds, half of what sums take hid behind forwards, and memory were enough for what sharing leaves of it,
  // in buffers of any size.
  void Bound() {
    if (chosen_.lower_bound_seconds <= 0 || problem_.devices.size() < 2 ||
        problem_.constraints.max_routes == 1)
      return;
    PlanningProblem relaxed = problem_;
    relaxed.constraints.saves_memory = false;
    relaxed.charged_part_of_sums /= 2;
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

  static absl::StatusOr<Plan> WithSharedOptimizer(Plan plan) {
    plan.shards_optimizer = true;
    plan.post_validation = false;
    for (Unit& unit : plan.units) unit.forwards_ahead = -1;
    return plan;
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
    const double below = (what == kParameters ? 1 - kLeastGain : 1) * best_seconds_;
    if (!seconds.ok() || *seconds >= below || !FitsMemory(problem_, *plan)) return;
    best_ = *plan;
    best_seconds_ = *seconds;
    what_ = what;
  }

  const PlanningProblem& problem_;
  const SearchLimits& limits_;
  ChosenPlan& chosen_;
  SecondsOfPlans seconds_;
  bool tried_ = false;
  Plan best_;
  double best_seconds_;
  const char* what_ = "";
};

}  // namespace

void ChooseSharding(const PlanningProblem& problem, const std::vector<PredictedPlan>& plans,
                    const SearchLimits& limits, ChosenPlan& chosen) {
  if (problem.constraints.saves_memory) Sharding(problem, limits, chosen).Run(plans);
}

bool ChooseShardedParameters(const PlanningProblem& problem, const SearchLimits& limits, ChosenPlan& chosen) {
  return problem.constraints.saves_memory && Sharding(problem, limits, chosen).RunParameters();
}

}  // namespace medley
