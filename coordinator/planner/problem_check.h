#pragma once
#include "absl/status/status.h"
#include "coordinator/predictor/cost_model.h"

namespace medley {

// Whether a planner can work on `problem` at all. InvalidArgument names the field, its value and what is
// allowed.
absl::Status CheckProblem(const PlanningProblem& problem);

// The same problem without the devices that were not measured with whole blocks; there may be none left.
PlanningProblem OnDevicesOfWholeBlocks(const PlanningProblem& problem);

}  // namespace medley
