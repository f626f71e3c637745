#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"

namespace medley {

// Of each device its place, numbered from 0; all are equal where there is one. Places are sites or, where there is one site alone, its
// racks.
std::vector<int> OutermostPlaces(const PlanningProblem& problem);

// The devices of each place by themselves, where there are several; one of those that are alike: with as many hosts of each make-up, and
// links within them that are as fast. The one that would be done first if it computed all the time comes first.
std::vector<PlanningProblem> Homes(const PlanningProblem& problem);

// What plans are made for by itself: the first few homes, and then likewise of hosts, wherever they are; none is like another.
inline constexpr int kMostAlone = 4;  // of either
std::vector<PlanningProblem> PartsAlone(const PlanningProblem& problem);

}  // namespace medley
