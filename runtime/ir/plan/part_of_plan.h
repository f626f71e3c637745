#pragma once
#include <vector>

#include "runtime/ir/plan/plan.h"

namespace medley {

// Some routes of `plan`, in that order, with their units by themselves, which are numbered as the routes come to them. Of what the
// plan says as a whole it has the schedule.
Plan PartOfPlan(const Plan& plan, const std::vector<int>& routes);

}  // namespace medley
