#pragma once
#include <vector>

#include "absl/status/status.h"
#include "runtime/ir/collective/collective_schedule.h"
#include "runtime/ir/collective/wire_type.h"

namespace medley {

// Runs a schedule in this thread over `values`, by member one vector of schedule.elements each: the exact
// bits that every correct execution ends with, since the additions of an element have one order. The oracle
// of comm/collective. InvalidArgument: `values` does not fit, or the members come to wait for each other;
// `values` is then of no use.
absl::Status RunSerially(const CollectiveSchedule& schedule, WireType wire,
                         std::vector<std::vector<float>>& values);

}  // namespace medley
