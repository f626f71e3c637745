#pragma once
#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// The plan with the weights of units that hold what others hold by how fast they update it: whole numbers in about the proportion of
// 1 / update_seconds_per_parameter of their slowest ranks, which OptimizerSharding lowers where memory asks for it. Weights of others are 1. Units
// that recompute do so of as few layers as then fit (WithFewestRecomputed).
// Whether steps are shorter so is for a prediction to say.
//
// The plan as it is: it shares no optimizer's state, or all holders of whatever is shared are about as fast; updates of some device take no
// time, or were not measured; or no such weights fit, or, of more than some dozen ranks, not without being lowered.
//
// `plan` must be valid for `problem` but for its memory. Pure.
Plan WithOptimizerSharesBySpeed(const PlanningProblem& problem, const Plan& plan);

}  // namespace medley
