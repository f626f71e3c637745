#pragma once
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/collective/wire_type.h"

// RunCollective with the schedules of runtime/ir/collective. What it says of arguments, threads and errors
// holds here; a shape that does not fit is an InvalidArgument before anything is sent. Who runs one often
// keeps its schedule.
namespace medley {

// How, where, and until when.
struct CollectiveCall {
  absl::Span<const int> members;  // ranks, ascending, this one among them
  uint16_t channel = 0;
  WireType wire = WireType::kF32;
  absl::Time deadline = absl::InfiniteFuture();
};

// Replaces `values` by their sums over the members, the same bits at each.
absl::Status AllReduce(Transport& transport, const CollectiveCall& call, const CollectiveChoice& choice,
                       absl::Span<float> values);

// Replaces this member's slice (SlicesOf with shape.shares) by its sums; the rest is then of no use. Around a
// ring.
absl::Status ReduceScatter(Transport& transport, const CollectiveCall& call, const GroupShape& shape,
                           absl::Span<float> values);

// Fills `values` from the members' slices. With bf16 each is rounded, its owner's too. Around a ring.
absl::Status AllGather(Transport& transport, const CollectiveCall& call, const GroupShape& shape,
                       absl::Span<float> values);

// Replaces `values` by those of `root` (a place among the members; with bf16 rounded, there too): small ones
// through a tree, large ones from each member to the next in shape.order.
absl::Status Broadcast(Transport& transport, const CollectiveCall& call, int root, const GroupShape& shape,
                       absl::Span<float> values);

inline constexpr int64_t kSmallestChainElements = int64_t{1} << 18;

}  // namespace medley
