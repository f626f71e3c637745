#pragma once
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/collective/wire_type.h"

namespace medley {

// How, where, and until when.
struct CollectiveCall {
  absl::Span<const int> members;  // ranks, ascending, this one among them
  uint16_t channel = 0;
  WireType wire = WireType::kF32;
  absl::Time deadline = absl::InfiniteFuture();
};

// Replaces `values` by their sums over the members, the same bits at each: RunCollective with the schedule of `choice`.
// What that says of arguments, threads and errors holds here; a shape that does not fit is an InvalidArgument before
// anything is sent. Who sums often keeps the schedule.
absl::Status AllReduce(Transport& transport, const CollectiveCall& call, const CollectiveChoice& choice,
                       absl::Span<float> values);

}  // namespace medley
