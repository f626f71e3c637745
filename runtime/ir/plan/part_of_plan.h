#pragma once
#include <vector>

#include "runtime/ir/plan/plan.h"

namespace medley {

// The units of some routes of `plan`, as these come to them, each once.
std::vector<UnitId> UnitsOf(const Plan& plan, const std::vector<int>& routes);

// Some routes of `plan`, in that order, with their units by themselves, numbered as in UnitsOf. Of what the plan says as a
// whole it has the schedule.
Plan PartOfPlan(const Plan& plan, const std::vector<int>& routes);

// The routes of `plan` in sets, each with all that share a unit, directly or by way of others. Ascending, by their first ones.
std::vector<std::vector<int>> RoutesThatMeet(const Plan& plan);

}  // namespace medley
