#pragma once
#include "absl/status/statusor.h"
#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// The schedule of a choice: what every member of the group derives for itself. InvalidArgument: members or
// elements out of range, or as for CheckGroupShape.
absl::StatusOr<CollectiveSchedule> AllReduceSchedule(int members, int64_t elements,
                                                     const CollectiveChoice& choice);

}  // namespace medley
