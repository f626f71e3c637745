#pragma once
#include "coordinator/planner/planner.h"

// What each device does of a plan, and each kind of device, which is what a cluster is bought and shared by. A kind's part of the work
// is counted in what forwards compute, of layers, sequences and width: seconds would say the same of a slow device as of one that does much.
namespace medley {

// Fills `explanation`'s devices, kinds and bubble_share. `prediction`: of `plan`.
void ExplainDevices(const PlanningProblem& problem, const Plan& plan, const StepPrediction& prediction,
                    Explanation& explanation);

}  // namespace medley
