#pragma once
#include "absl/status/status.h"
#include "coordinator/predictor/cost_model.h"

namespace medley {

// Whether a planner can work on `problem` at all. InvalidArgument names the field, its value and what is
// allowed.
absl::Status CheckProblem(const PlanningProblem& problem);

}  // namespace medley
