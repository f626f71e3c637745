#pragma once
#include <optional>

#include "runtime/ir/collective/collective_schedule.h"

// Rings: each member sends to its successor in the order alone, all at once. Least bytes, most rounds. Use
// order and shares; `shape` must fit (CheckGroupShape), elements must not be negative.
namespace medley {

// Afterwards each member holds the sum of its slice (OwnedSlices); what is in the others is of no use. The slice
// is summed from its owner's successor on, around the ring, to the owner. n - 1 rounds.
CollectiveSchedule RingReduceScatter(int members, int64_t elements, const GroupShape& shape,
                                     std::optional<int> only = {});

// Each member begins with its slice (OwnedSlices), and ends with all. n - 1 rounds.
CollectiveSchedule RingAllGather(int members, int64_t elements, const GroupShape& shape,
                                 std::optional<int> only = {});

// As the one, then the other, but with slices in the order of the members (SlicesOf), for nobody keeps one. 2 (n - 1) rounds; with even slices each member sends 2 (n - 1) / n of the vector.
CollectiveSchedule RingAllReduceSchedule(int members, int64_t elements, const GroupShape& shape,
                                         std::optional<int> only = {});

}  // namespace medley
