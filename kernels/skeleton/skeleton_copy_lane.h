#pragma once
#include "kernels/skeleton/skeleton_queue.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// A second line of a SkeletonQueue: its copies, too, are made no sooner than someone waits for them.
class SkeletonCopyLane final : public CopyLane {
 public:
  explicit SkeletonCopyLane(SkeletonQueue& queue) : queue_(queue) {}
  ~SkeletonCopyLane() override { Wait(Record()).IgnoreError(); }

  absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocatePinned(Bytes size) override;
  absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) override;
  absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) override;
  Fence Record() override;
  absl::Status Wait(Fence fence) override;
  absl::Status AwaitQueue(Fence fence) override;

 private:
  friend class SkeletonQueue;
  absl::Status Submit(std::function<absl::Status()> work);

  SkeletonQueue& queue_;
  const std::shared_ptr<SkeletonLine> line_ = std::make_shared<SkeletonLine>();  // under the queue's mutex
};

}  // namespace medley
