#pragma once
#include <optional>
#include <vector>

#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// All-reduce by recursive halving, then doubling: 2 log2 n rounds for the bytes of a ring. Pairs exchange
// halves of what they are summing, neighbours in the order first (they exchange most), then those 2, 4, ...
// apart; then back. Where n is no power of two, the members beyond the largest one below give their vector to
// the neighbour before them and get the sum at the end: two more rounds, of whole vectors.
//
// Uses order and shares; `shape` must fit (CheckGroupShape), elements must not be negative.
CollectiveSchedule HalvingDoublingSchedule(int members, int64_t elements, const GroupShape& shape,
                                           std::optional<int> only = {});

// The halves of it, of members in their order: by which each has its slice of the sum (OwnedSlices by `shares`, of each member; empty: even),
// and by which all have the slices of each. Who is beyond a power of two gives all of it to its neighbour first, and gets its slice of the
// sum last; then gives its slice, and gets all.
CollectiveSchedule HalvingReduceScatter(int members, int64_t elements, const std::vector<double>& shares,
                                        std::optional<int> only = {});
CollectiveSchedule DoublingAllGather(int members, int64_t elements, const std::vector<double>& shares,
                                     std::optional<int> only = {});

}  // namespace medley
