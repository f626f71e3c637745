#pragma once
#include <optional>

#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// All-reduce of small vectors: a binomial tree sums towards the first of the order, then spreads the sum. 2
// log2 n rounds of whole vectors, n - 1 messages each way. Neighbours in the order come first. Uses order;
// `shape` must fit.
CollectiveSchedule TreeAllReduceSchedule(int members, int64_t elements, const GroupShape& shape,
                                         std::optional<int> only = {});

}  // namespace medley
