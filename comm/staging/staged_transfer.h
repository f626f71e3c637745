#pragma once
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "comm/staging/device_message.h"
#include "comm/staging/pieces.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// What a staged message needs of its end.
struct StagedEnd {
  CopyLane& lane;
  DeviceSpan span;
  absl::Span<std::byte> ring;  // pinned; of `depth` slots of the size of a chunk
  int depth = 1;
  std::function<void()> when_ready = nullptr;  // DeviceMessage::when_ready
};

// Sends the span in chunks through the ring: the lane copies chunks ahead while earlier ones are sent.
// Blocks, on the calling thread alone, until the ring and the span may be used again, on errors as well.
// `pieces.bytes` is the span's. Errors: those of transport and lane, with the chunk; the peer then has got
// some of the chunks.
absl::Status SendStaged(const StagedEnd& end, const PieceRoute& route, const Pieces& pieces);

// Receives into the span likewise: chunks are awaited ahead while earlier ones are copied. When it returns
// OK, all of it has come and its copies are submitted: it is in the device's memory, and the ring free, when
// the lane reaches the fence.
absl::StatusOr<Fence> ReceiveStaged(const StagedEnd& end, const PieceRoute& route, const Pieces& pieces);

}  // namespace medley
