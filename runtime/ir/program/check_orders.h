#pragma once
#include <string>
#include <vector>

#include "runtime/ir/plan/plan.h"

namespace medley {

// What is wrong with the orders that the units of a plan list, first of each unit, naming units[u].order[i]:
// passes that are not of the plan, come twice, miss, or come before what they need of the same unit; units
// that wait for each other. Also orders of a plan whose schedule is not kListed. The plan must be valid in
// all else. Empty: all is well.
std::vector<std::string> OrderObjections(const Plan& plan);

}  // namespace medley
