#pragma once
#include <atomic>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/device/copy_lane.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/queue_timer.h"

namespace medley {

// A queue over host memory that does everything at once: a submission has completed when it returns.
//
// A call that is rejected for its arguments (OutOfRange, InvalidArgument) submits nothing and leaves the
// queue as it was. Work that fails after it was accepted poisons the queue by Poison(); from then on Wait()
// and every submission return that first error.
class HostQueue final : public DeviceQueue {
 public:
  // `limit`: the most bytes of live Buffers, scratch of the ops among them.
  HostQueue(std::string name, Bytes limit) : name_(std::move(name)), limit_(limit) {}

  std::string name() const override { return name_; }
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

  // Makes `error` (not OK) the queue's error, unless it has one. Returns the queue's error. Any thread.
  absl::Status Poison(absl::Status error);

  // The queue's first error, or OK. Any thread.
  absl::Status error() const;

 private:
  friend class HostBuffer;

  const std::string name_;
  const Bytes limit_;
  std::atomic<int64_t> allocated_ = 0;
  std::atomic<int64_t> peak_allocated_ = 0;
  std::atomic<uint64_t> recorded_ = 0;
  std::atomic<bool> poisoned_ = false;
  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
