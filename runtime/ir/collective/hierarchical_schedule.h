#pragma once
#include <optional>

#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// All-reduce over nested groups. Inside each innermost group a ring leaves every member with a slice of the
// group's sum; the members that hold the same elements in the groups beside sum them in rings across, and so
// on outwards; then all is gathered back inwards. Two groups exchange one vector each way, whatever their
// members, and g groups 2 (g - 1) / g. Groups of unequal sizes hold different slices: what goes across is cut
// where either cuts.
//
// Large vectors go through in kHierarchicalPieces pieces, a phase behind each other, so that while one piece
// crosses the slow link others are summed and gathered inside.
//
// Uses order, levels and shares; `shape` must fit (CheckGroupShape), elements must not be negative.
CollectiveSchedule HierarchicalSchedule(int members, int64_t elements, const GroupShape& shape,
                                        std::optional<int> only = {});

inline constexpr int kHierarchicalPieces = 8;
// The smallest piece of a member's slice; smaller vectors go through in fewer pieces.
inline constexpr int64_t kSmallestPieceElements = int64_t{1} << 16;

}  // namespace medley
