#pragma once
#include "kernels/emulated/emulated_queue.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// A timeline of copies beside an emulated queue's, each of which takes what a copy of the queue takes. Lanes
// do not share the link's speed among them: where two copy in one direction at once, a real link would be
// half as fast for each. Uploads are dropped, downloads give zeros; large pinned memory repeats itself. Never
// poisoned. Any thread.
class EmulatedCopyLane final : public CopyLane {
 public:
  explicit EmulatedCopyLane(const EmulatedQueue& queue) : queue_(queue) {}
  ~EmulatedCopyLane() override { EmulatedTimeline::SleepUntil(Record()); }

  absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocatePinned(Bytes size) override;
  bool PinnedTakesMemory() const override { return false; }
  absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) override;
  absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) override;
  Fence Record() override { return timeline_.Record(); }
  absl::Status Wait(Fence fence) override;
  absl::Status AwaitQueue(Fence fence) override;

 private:
  const EmulatedQueue& queue_;
  EmulatedTimeline timeline_;
};

}  // namespace medley
