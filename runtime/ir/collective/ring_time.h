#pragma once
#include "runtime/ir/collective/collective_problem.h"
#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// CollectiveSeconds of RingAllReduceSchedule without the schedule: to the bit the same, in a few microseconds
// for 8 members. `shape` must fit (CheckGroupShape).
double RingSeconds(const CollectiveProblem& problem, const GroupShape& shape);

}  // namespace medley
