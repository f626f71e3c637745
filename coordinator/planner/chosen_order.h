#pragma once
#include <vector>

#include "coordinator/planner/planner.h"
#include "coordinator/planner/techniques/orders.h"

namespace medley {

// Puts the passes of the best of `plans`, which a search found beside `chosen`, in an order of their own
// where the constraints allow that and it pays; says so in `chosen`. Of `limits` it looks at `stop` alone.
void ChooseOrder(const PlanningProblem& problem, const std::vector<PredictedPlan>& plans,
                 const SearchLimits& limits, ChosenPlan& chosen);

// Puts the passes of `chosen`, wherever it comes from, in an order of several ranges a unit where the constraints allow that and it
// pays; says so. It looks at `stop` alone.
void ChooseRanges(const PlanningProblem& problem, const SearchLimits& limits, ChosenPlan& chosen);

}  // namespace medley
