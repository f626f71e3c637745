#pragma once
#include <optional>

#include "absl/status/statusor.h"
#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// The schedule of a choice: what every member of the group derives for itself, the steps of `only` alone where it is
// given. InvalidArgument: members, elements or `only` out of range, or as for CheckGroupShape.
absl::StatusOr<CollectiveSchedule> AllReduceSchedule(int members, int64_t elements,
                                                     const CollectiveChoice& choice,
                                                     std::optional<int> only = {});

}  // namespace medley
