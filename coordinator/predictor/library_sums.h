#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/collective/group_way.h"

// Which way devices of a problem exchange, and what was measured of a library that they do it by.
namespace medley {

// What the workers will choose, each device being taken for another one than the others. `exchanging`: some of the devices exchange by a
// library within passes, which matters to sums of gradients.
GroupWay GroupWayOf(const PlanningProblem& problem, const std::vector<int>& devices, GroupUse use,
                    bool exchanging = false);

// Whether gradients are summed on the hosts, whatever library the devices have, where one holder is of a unit of so many devices, which
// exchange by it within passes; or where what is summed lives elsewhere than on its devices (LivesElsewhere).
inline bool SumsOnHosts(int degree, bool lives_elsewhere) { return degree > 1 || lives_elsewhere; }

// What sums over `devices`, at least two, take by a library of theirs. Null: they do not go by one; or nothing was measured of it, or not
// the same of all links between them. Lives as long as the problem's links.
const std::vector<AllReduceTimes>* LibrarySumsOf(const PlanningProblem& problem,
                                                 const std::vector<int>& devices, GroupUse use,
                                                 bool exchanging = false);

// Whether what any library's sums take was measured.
bool AnySumIsMeasured(const PlanningProblem& problem);

}  // namespace medley
