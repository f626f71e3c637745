#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"

namespace medley {

// Of each of some devices, its host (HostOf) where that has several of them and something sets it apart: its network cards are known, hierarchies are
// forced, or the links show it, these devices reaching each other otherwise than they reach any other of them. Else a number that no other has.
std::vector<int> HostsThatCount(const PlanningProblem& problem, const std::vector<int>& devices);

}  // namespace medley
