#pragma once
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device/copy_lane.h"
#include "runtime/device/ops.h"

namespace medley {

// The host's side of a slice of f32 in device memory, for who works on it there while the device computes: an
// all-reduce beside the backward pass. Where the host reaches the device's memory this is that memory and
// nothing is ever copied; otherwise it is pinned memory, and a lane copies, so that the compute line neither
// carries the copies nor waits for them.
//
// Movable. One thread at a time, which need not be the one that submits to the queue.
class PinnedMirror {
 public:
  // `queue`, `lane` (of it; null only where the host reaches its memory) and the slice's buffer outlive the
  // mirror; the lane may serve many mirrors of one thread. Errors: of CopyLane::AllocatePinned;
  // InvalidArgument: a lane is needed.
  static absl::StatusOr<PinnedMirror> Create(DeviceQueue& queue, CopyLane* lane, const Slice& slice);

  // Of values that are in host memory already, aligned as f32 is: nothing is ever copied.
  static PinnedMirror OfHost(absl::Span<float> values);

  // Worth registering with a transport.
  absl::Span<std::byte> bytes() { return bytes_; }

  // Blocks until bytes() has what the slice has when the queue reaches `after`.
  absl::Status FromDevice(Fence after);

  // Blocks until the queue has reached `after`, and slice and bytes() may be overwritten; copies nothing.
  absl::Status AwaitDevice(Fence after);

  // Copies device memory of the same queue that stays as it is into bytes(), from `offset` on; blocks until it is there.
  absl::Status Take(const Slice& from, Bytes offset);

  // Copies what bytes() have from `offset` on into device memory of the same queue, which nothing else uses: it has
  // them when the lane reaches the fence; empty: it has them already.
  absl::StatusOr<std::optional<Fence>> Put(Bytes offset, const Slice& to);

  // Copies bytes() into the slice: it has them when the lane reaches the fence; empty: it has them already.
  // Whatever the queue was to do with it before must be done, and bytes() stay as they are until FromDevice.
  absl::StatusOr<std::optional<Fence>> ToDevice();

 private:
  PinnedMirror(DeviceQueue* queue, CopyLane* lane, const Slice& slice)
      : queue_(queue), lane_(lane), slice_(slice) {}

  DeviceQueue* queue_;  // null: of host memory
  CopyLane* lane_;
  Slice slice_;
  std::unique_ptr<PinnedMemory> own_;  // null where the host reaches the device's memory
  absl::Span<std::byte> bytes_;        // of the device's memory, or of own_
};

}  // namespace medley
