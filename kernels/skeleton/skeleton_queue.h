#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "kernels/skeleton/skeleton_line.h"
#include "runtime/base/mutex.h"
#include "runtime/device/copy_lane.h"
#include "runtime/device/ops.h"
#include "runtime/device/queue_timer.h"

namespace medley {

// The least queue that is one: memory that the host is not given the address of, and work that is done no
// sooner than someone waits for it (skeleton_line.h); whoever forgets to wait reads what was there before.
class SkeletonQueue final : public DeviceQueue {
 public:
  explicit SkeletonQueue(Bytes limit) : limit_(limit) {}

  std::string name() const override { return "skeleton"; }
  // Besides the contract: InvalidArgument if `size` is negative.
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Bytes size) override;
  absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) override;
  absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) override;
  Fence Record() override;
  absl::Status Wait(Fence fence) override;
  absl::StatusOr<std::unique_ptr<CopyLane>> OpenCopyLane() override;
  absl::Status AwaitLane(CopyLane& lane, Fence fence) override;
  absl::StatusOr<std::unique_ptr<QueueTimer>> OpenTimer(int marks) override;
  Bytes allocated() const override { return {allocated_.load()}; }
  Bytes peak_allocated() const override { return {peak_allocated_.load()}; }
  Bytes limit() const override { return limit_; }

  // For the ops. `work` runs after all that was submitted before it, unless some of that failed, and keeps
  // alive what it uses. Its error poisons the queue. Returns the queue's error.
  absl::Status Submit(std::function<absl::Status()> work);

  // The first element of `slice`, which was checked by CheckArguments; keeps its memory. Null if it is empty.
  template <typename T>
  static std::shared_ptr<T> Hold(const Slice& slice) {
    if (slice.empty()) return nullptr;
    const std::shared_ptr<std::byte[]> memory = MemoryOf(*slice.buffer);
    return {memory, reinterpret_cast<T*>(memory.get() + slice.offset_bytes)};
  }

 private:
  friend class SkeletonBuffer;
  friend class SkeletonCopyLane;
  static std::shared_ptr<std::byte[]> MemoryOf(Buffer& buffer);

  const Bytes limit_;
  std::atomic<int64_t> allocated_ = 0;
  std::atomic<int64_t> peak_allocated_ = 0;
  Mutex mutex_;                                                                  // of all lines of the queue
  const std::shared_ptr<SkeletonLine> line_ = std::make_shared<SkeletonLine>();  // under mutex_
};

}  // namespace medley
