#pragma once
#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

// As few layers as fit of what saves memory and takes time. What else a plan does, its schedule, its weights of the optimizer's state, its
// ranges, decides how many these are, so that whatever changes that of a plan asks again. Compiles a program of each rank, of many of
// those that are alike one. Pure.
namespace medley {

// The plan with each unit that recomputes doing so of as few of its layers as fit its devices, and of all of them where not even
// that fits, whatever it said before.
Plan WithFewestRecomputed(const PlanningProblem& problem, Plan plan);

// The same of units whose activations live in host memory, of none where they fit so: a program for each number that is looked at.
Plan WithFewestHomed(const PlanningProblem& problem, Plan plan);

}  // namespace medley
