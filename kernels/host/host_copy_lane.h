#pragma once
#include <atomic>

#include "kernels/host/host_queue.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// A lane of a queue that does everything at once: a copy has been made when its submission returns, so fences
// have nothing to wait for. What poisons the queue poisons it too.
class HostCopyLane final : public CopyLane {
 public:
  explicit HostCopyLane(HostQueue& queue) : queue_(queue) {}

  absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocatePinned(Bytes size) override;
  absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) override;
  absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) override;
  Fence Record() override { return {++recorded_}; }
  absl::Status Wait(Fence) override { return queue_.error(); }
  absl::Status AwaitQueue(Fence) override { return queue_.error(); }

 private:
  HostQueue& queue_;
  std::atomic<uint64_t> recorded_ = 0;
};

}  // namespace medley
