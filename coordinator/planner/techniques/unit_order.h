#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// The plan with its units numbered by where they are: those of a host behind each other, and hosts whose devices reach others alike. Ranks
// are numbered through the units, and holders of a slice that are neighbours as ranks halve it first (LeavesOf, collective_schedule.h), each
// round with half as much as the one before: so most of it stays within hosts, and what is left among hosts of a kind. Nothing else depends
// on the numbers but who of several counts norms of what all hold. The plan as it is where no host has two of the units.
//
// `first_devices`: of each unit, the index of its first device in the problem; without them they are found by name, of a plan that is
// valid for it. Pure.
Plan WithUnitsByHost(const PlanningProblem& problem, Plan plan, const std::vector<int>& first_devices);
Plan WithUnitsByHost(const PlanningProblem& problem, Plan plan);

}  // namespace medley
