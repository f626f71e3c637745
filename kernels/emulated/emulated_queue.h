#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "kernels/emulated/emulated_timeline.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/queue_timer.h"

namespace medley {

// A queue whose work is done when its time has come, and consists of nothing.
//
// Submissions take their time on a timeline; Wait sleeps until then. Buffers have a size and no memory: no
// host address, uploads are dropped, downloads give zeros. Never poisoned. Any thread.
class EmulatedQueue final : public DeviceQueue {
 public:
  struct Options {
    std::string name;
    Bytes limit;
    double link_bytes_per_second = 1e16;  // of uploads and downloads; more than 0
    double copy_overhead_seconds = 0;
  };
  explicit EmulatedQueue(Options options) : options_(std::move(options)) {}

  // Submits work that takes so long; not negative.
  void Take(double seconds) { timeline_.Take(seconds); }

  // That a copy of so many bytes takes, here or on a lane.
  double CopySeconds(size_t bytes) const;

  std::string name() const override { return options_.name; }
  // Besides the contract: InvalidArgument if `size` is negative.
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Bytes size) override;
  absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) override;
  absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) override;
  // The fence's value is when it is reached, in nanoseconds of the monotonic clock.
  Fence Record() override { return timeline_.Record(); }
  absl::Status Wait(Fence fence) override;
  absl::StatusOr<std::unique_ptr<CopyLane>> OpenCopyLane() override;
  absl::Status AwaitLane(CopyLane& lane, Fence fence) override;
  absl::StatusOr<std::unique_ptr<QueueTimer>> OpenTimer(int marks) override;
  Bytes allocated() const override { return {allocated_.load()}; }
  Bytes peak_allocated() const override { return {peak_allocated_.load()}; }
  Bytes limit() const override { return options_.limit; }

 private:
  friend class EmulatedBuffer;

  const Options options_;
  std::atomic<int64_t> allocated_ = 0;
  std::atomic<int64_t> peak_allocated_ = 0;
  EmulatedTimeline timeline_;
};

}  // namespace medley
