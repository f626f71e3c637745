#pragma once
#include "runtime/ir/program/list_schedule.h"

namespace medley {

// By which the units of a pipeline run `schedule`, which is none that is listed, where routes pass them more
// than once; see ScheduleOrders (schedule.h).
ListRule RuleOf(Schedule schedule, const PassGraph& graph);

}  // namespace medley
