#include "coordinator/planner/chosen_order.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/planner/chosen_saving.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/predictor/predict.h"

namespace medley {

void ChooseOrder(const PlanningProblem& problem, const std::vector<PredictedPlan>& plans,
                 const SearchLimits& limits, ChosenPlan& chosen) {
  if (!problem.constraints.synthesised_orders || plans.empty()) return;
  const PredictedPlan named = {chosen.plan, chosen.step_seconds};
  std::optional<PredictedPlan> best = BestSynthesised(problem, plans, named, limits.stop);
  if (!best && limits.stopped()) {
    chosen.orders = "as the schedule says: planning was stopped before an order was found that is faster";
    return;
  }
  if (!best) {
    chosen.orders = DescribeNoOrder(plans.size());
    return;
  }
  chosen.orders = DescribeOrder(problem, *best, named, chosen.proven_optimal);
  // Why the named plan saves memory is no reason of another one.
  if (!chosen.fitting.empty() && !(WithoutOrders(best->plan) == WithoutOrders(chosen.plan))) {
    const absl::StatusOr<StepPrediction> prediction = PredictStep(problem, best->plan);
    chosen.fitting =
        prediction.ok() ? absl::StrJoin(DescribeSaving(problem, best->plan, *prediction), "; ") : "";
  }
  chosen.plan = std::move(best->plan);
  chosen.step_seconds = best->step_seconds;
  chosen.proven_optimal = false;
  chosen.lower_bound_seconds = 0;
}

void ChooseRanges(const PlanningProblem& problem, const SearchLimits& limits, ChosenPlan& chosen) {
  if (!problem.constraints.synthesised_orders || limits.stopped()) return;
  PredictedPlan best = {chosen.plan, chosen.step_seconds};
  TryInRanges(problem, WithoutOrders(chosen.plan), best);
  if (best.plan == chosen.plan) return;
  absl::StrAppend(
      &chosen.orders, chosen.orders.empty() ? "" : "; ",
      absl::StrFormat("for up to %d ranges of blocks a unit, by which a step takes %.1f %% less",
                      MostRanges(best.plan), 100 * (1 - best.step_seconds / chosen.step_seconds)));
  chosen.plan = std::move(best.plan);
  chosen.step_seconds = best.step_seconds;
  chosen.proven_optimal = false;
  chosen.lower_bound_seconds = 0;
  StoreFewestLayers(problem, chosen);
}

}  // namespace medley
