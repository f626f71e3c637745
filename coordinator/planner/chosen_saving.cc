#include "coordinator/planner/chosen_saving.h"

#include <utility>

#include "coordinator/planner/techniques/fewest_layers.h"
#include "coordinator/predictor/alike_routes.h"

namespace medley {
namespace {

// Steps that differ by less take as long: sums that begin a little sooner may come in each other's way.
constexpr double kAsLong = 1.001;

}  // namespace

void StoreFewestLayers(const PlanningProblem& problem, ChosenPlan& chosen) {
  Plan plan = WithFewestHomed(problem, chosen.plan);
  if (plan == chosen.plan) return;
  const absl::StatusOr<double> step_seconds = AlikeRoutePredictor(problem).Predict(plan);
  if (!step_seconds.ok() || *step_seconds > kAsLong * chosen.step_seconds) return;
  chosen.plan = std::move(plan);
  chosen.step_seconds = *step_seconds;
}

}  // namespace medley
