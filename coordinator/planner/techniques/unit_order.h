#pragma once
#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// The plan with its units numbered by where their first devices are (PlacesByHost): those of a host behind each other, and hosts of a kind. Ranks
// are numbered through the units, and holders of a slice that are neighbours as ranks halve it first (LeavesOf, collective_schedule.h), each
// round with half as much as the one before. So what crosses hosts is little, and what crosses kinds less, where hosts have like numbers
// of holders; of unlike numbers other orders may be better. What a rank owns of what is shared, and so its memory, goes by the numbers, too. A plan
// that shares nothing is as it is: of it they say who answers for norms.
//
// `plan` must be valid for `problem` but for its memory. Pure.
Plan WithUnitsByHost(const PlanningProblem& problem, Plan plan);

}  // namespace medley
