#pragma once
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"

namespace medley {

// Replaces `values` by their element-wise sum over `members` (ranks, ascending, this one among them). Every
// member calls it with the same members, channel and number of values; with one member nothing happens.
//
// The ring is cut into as many segments as members. Segment j is summed in the order of the members j, j+1,
// ..., and around, in float, by one member alone, and then copied: the result has the same bits on every
// member and in every run. Each member sends 2 (n-1)/n of the vector. A segment travels in chunks, several
// under way at once, so that adding overlaps with transfer; beside `values` it takes at most
// kRingScratchBytes.
//
// Blocks; to be called from one thread per channel. Calls of one channel are told apart by their order, so
// two groups that share a pair of neighbours and run at the same time need two channels.
//
// Errors; `values` is then of no use:
//   InvalidArgument  members, as for PlaceAmong.
//   others           those of Transport, with the neighbour.
absl::Status RingAllReduce(Transport& transport, absl::Span<const int> members, uint16_t channel,
                           absl::Span<float> values, absl::Time deadline);

inline constexpr int64_t kRingScratchBytes = int64_t{1} << 20;

}  // namespace medley
