#pragma once
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"

namespace medley {

// Replaces the few `values` (losses, counts, norms) by their sums over `members` (ranks, ascending, this one
// among them), added in rank order: the same bits on every member. One message to each other member, so one
// latency whatever their number; for vectors worth a bandwidth there is RingAllReduce.
//
// Blocks. Members that share several calls make them in the same order, from one thread at a time.
//
// Errors; `values` is then unchanged:
//   InvalidArgument  members, as for PlaceAmong.
//   others           those of Transport, with the peer.
absl::Status AllReduceScalars(Transport& transport, absl::Span<const int> members, absl::Span<double> values,
                              absl::Time deadline);

}  // namespace medley
