#pragma once
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// Devices of `after` that hold what they held in `before`: the same blocks in the same share.
int DevicesThatKeep(const Plan& before, const Plan& after);

// For a job that has run under `running`: of plans that are as fast as `chosen`, that which changes least. That is
// - `running` itself, where `problem` still has its devices, they fit, the constraints allow it, and it is predicted to
//   be slower by kAsFast at most, with what is proven and bounded of it, which may be less than of `chosen`;
// - else `chosen` with those devices exchanged that are alike to every prediction, so that as many as are found hold as
//   many of the blocks that they held.
// The device of a block that stays has read its parameters before, and people find their jobs where they were. Pure and
// deterministic.
ChosenPlan WithLeastChange(const PlanningProblem& problem, const Plan& running, ChosenPlan chosen);

constexpr double kAsFast = 0.02;

}  // namespace medley
