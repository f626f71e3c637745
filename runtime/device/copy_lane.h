#pragma once
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device/device_queue.h"

namespace medley {

// Host memory that is copied from and to fastest: page-locked where the device's driver has such a thing,
// ordinary memory elsewhere. Freed on destruction, after the copies that use it are done. Must not outlive
// its queue.
class PinnedMemory {
 public:
  virtual ~PinnedMemory() = default;
  virtual absl::Span<std::byte> bytes() = 0;
};

// An in-order line of copies between the host and a queue's buffers, beside the queue's own line and other
// lanes: what it carries runs while the queue computes. Nothing orders a lane and its queue but AwaitQueue()
// and DeviceQueue::AwaitLane().
//
// Submissions may return before they are done. A buffer and host memory must stay alive until a fence
// recorded after their last copy was waited for. A failed submission poisons the lane: every later call
// returns the same error. Threading: one submitting thread at a time, which need not be the queue's; Wait()
// from any thread. Must not outlive its queue. Destroying it waits for its copies.
class CopyLane {
 public:
  virtual ~CopyLane() = default;

  // Aligned to 64, not zeroed. ResourceExhausted: there is no more of it. InvalidArgument: `size` is
  // negative.
  virtual absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocatePinned(Bytes size) = 0;

  // Whether that takes as much of the host's memory as its size.
  virtual bool PinnedTakesMemory() const { return true; }

  // Copies `from` into `to` at byte `offset`. Memory of AllocatePinned is not copied on the way; any other
  // works. Unlike DeviceQueue::Upload, `from` must stay as it is until a fence recorded later is reached.
  // OutOfRange: it would pass the end of `to`; nothing is copied.
  virtual absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) = 0;

  // Copies `from` at byte `offset` into `to`, which is written until a fence recorded later is reached.
  // OutOfRange as for Upload.
  virtual absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) = 0;

  // Fences of the lane; those of its queue mean nothing here.
  virtual Fence Record() = 0;
  virtual absl::Status Wait(Fence fence) = 0;

  // What is submitted here from now on begins when the queue has reached `fence`, which its Record()
  // returned. Does not block. Returns the queue's error, if it has one: then nothing may be expected of its
  // memory.
  virtual absl::Status AwaitQueue(Fence fence) = 0;
};

}  // namespace medley
