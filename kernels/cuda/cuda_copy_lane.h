#pragma once
#include <deque>
#include <memory>
#include <string>

#include "kernels/cuda/cuda_queue.h"
#include "runtime/base/mutex.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// A stream of its own, whose copies go from and to page-locked memory without staging. Memory of other kinds
// works: the driver then stages, and a submission may block.
class CudaCopyLane final : public CopyLane {
 public:
  // Errors: the driver's.
  static absl::StatusOr<std::unique_ptr<CudaCopyLane>> Create(CudaQueue& queue);
  ~CudaCopyLane() override;

  absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocatePinned(Bytes size) override;
  absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) override;
  absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) override;
  Fence Record() override;
  absl::Status Wait(Fence fence) override;
  absl::Status AwaitQueue(Fence fence) override;

  // What is submitted to `stream` from now on begins when the lane has reached `fence`. Any thread that has
  // the device's context. Errors: the lane's.
  absl::Status HoldStream(CUstream stream, Fence fence);

 private:
  struct Mark {
    uint64_t value = 0;
    CUevent reached = nullptr;
    int waiters = 0;
  };
  explicit CudaCopyLane(CudaQueue& queue) : queue_(queue), driver_(queue.device().driver()) {}
  // The lane's error, or OK with the device's context current.
  absl::Status Enter();
  absl::Status Submitted(CUresult result, const std::string& what);
  absl::Status PoisonLocked(absl::Status error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The mark of `fence`, or null if it is known to be reached.
  Mark* Find(Fence fence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops marks up to `value` that nobody waits for and that are reached, as `known_reached` says of all up
  // to it.
  void Drop(uint64_t known_reached) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CudaQueue& queue_;
  const CudaDriver& driver_;
  CUstream stream_ = nullptr;
  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  uint64_t recorded_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::unique_ptr<Mark>> marks_ ABSL_GUARDED_BY(mutex_);  // oldest first, without gaps
  std::vector<CUevent> free_events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
