#pragma once
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"

namespace medley {

// Replaces the few `values` (losses, counts, norms) by their sums over `members` (ranks, ascending, this one
// among them): the same bits on every member and in every run. Up to eight members are added in rank order, more as
// ScalarTree (runtime/ir/collective) groups them, each group in rank order: messages and rounds grow with the logarithm
// of their number. For vectors worth a bandwidth there is AllReduce.
//
// Blocks. Members that share several calls make them in the same order, from one thread at a time.
//
// Errors; `values` is then unchanged:
//   InvalidArgument  members, as for PlaceAmong.
//   others           those of Transport, with the peer.
absl::Status AllReduceScalars(Transport& transport, absl::Span<const int> members, absl::Span<double> values,
                              absl::Time deadline);

}  // namespace medley
