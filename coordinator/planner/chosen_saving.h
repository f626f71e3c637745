#pragma once
#include "coordinator/planner/planner.h"

namespace medley {

// Has units of the plan that keep what forwards keep in host memory do so of as few layers as fit (WithFewestHomed), where a step
// is predicted to take no longer so.
void StoreFewestLayers(const PlanningProblem& problem, ChosenPlan& chosen);

}  // namespace medley
