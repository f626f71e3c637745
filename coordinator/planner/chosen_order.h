#pragma once
#include <vector>

#include "coordinator/planner/orders.h"
#include "coordinator/planner/planner.h"

namespace medley {

// Puts the passes of the best of `plans`, which a search found beside `chosen`, in an order of their own
// where the constraints allow that and it pays; says so in `chosen`.
void ChooseOrder(const PlanningProblem& problem, const std::vector<PredictedPlan>& plans, ChosenPlan& chosen);

}  // namespace medley
