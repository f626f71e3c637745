#pragma once
#include <string>

#include "coordinator/planner/planner.h"

namespace medley {

// Cuts micro-batches of a plan that was made by classes into parts where that is predicted to be faster; says so in
// `chosen`, of which nothing is bounded then.
void ChooseParts(const PlanningProblem& problem, ChosenPlan& chosen);

// What it brings that units cut micro-batches into parts, where a step would take `whole_seconds` if they did not, for
// people.
std::string DescribeParts(const Plan& plan, double step_seconds, double whole_seconds);
// The same plan with whole micro-batches.
Plan WithWholeMicroBatches(Plan plan);

}  // namespace medley
