#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "runtime/base/mutex.h"
#include "runtime/device/copy_lane.h"
#include "runtime/device/device_group.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/ops.h"
#include "runtime/device/queue_timer.h"

namespace medley {

class CudaBuffer;

// A GPU as a queue: two streams of the driver. Ops and uploads go to the compute stream, in order. Downloads
// go to the copy stream, each after what the compute stream held before it, so that they run beside later
// ops; an op that uses the buffer of a download under way waits for it on the device.
//
// Uploads are copied into page-locked memory on submission. Downloads arrive in page-locked memory and are
// copied to their destination by whoever waits for a later fence, or by a later submission that needs the
// room.
class CudaQueue final : public DeviceQueue {
 public:
  // `limit`: the most bytes of live Buffers. Errors: the driver's, as Unavailable.
  static absl::StatusOr<std::unique_ptr<CudaQueue>> Create(std::unique_ptr<CudaDevice> device, Bytes limit);
  ~CudaQueue() override;

  std::string name() const override;
  // Besides the contract: InvalidArgument if `size` is negative.
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Bytes size) override;
  absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) override;
  absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) override;
  Fence Record() override;
  absl::Status Wait(Fence fence) override;
  absl::StatusOr<std::unique_ptr<CopyLane>> OpenCopyLane() override;
  absl::Status AwaitLane(CopyLane& lane, Fence fence) override;
  absl::StatusOr<std::unique_ptr<QueueTimer>> OpenTimer(int marks) override;
  absl::StatusOr<GroupLibrary*> groups() override;
  Bytes allocated() const override { return {allocated_.load()}; }
  Bytes peak_allocated() const override { return {peak_allocated_.load()}; }
  Bytes limit() const override { return limit_; }

  // For the ops, on the submitting thread.

  // As Allocate, but not zeroed: workspaces and kept copies.
  absl::StatusOr<std::unique_ptr<Buffer>> AllocateWorkspace(Bytes size);
  // Where `slice`, of a buffer of this queue, begins on the device, for an op that is submitted to
  // compute_stream() next; 0 for an empty slice. A download of the buffer under way is waited for on the
  // device first.
  absl::StatusOr<CUdeviceptr> Address(const Slice& slice);
  // Before each op: the queue's error, or OK with the device's context current.
  absl::Status Enter();
  // After a driver call: OK, or poisons the queue.
  absl::Status Submitted(CUresult result, const std::string& what);
  // Makes `error` (not OK) the queue's error, unless it has one. Returns the queue's error. Any thread.
  absl::Status Poison(absl::Status error);
  absl::Status error() const;

  // What is submitted to `stream` from now on begins when the queue has reached `fence`, downloads included.
  // Any thread that has the device's context. Errors: the queue's.
  absl::Status HoldStream(CUstream stream, Fence fence);

  // What groups() has from now on. Before its first use, while nobody else uses the queue.
  void SetGroups(absl::StatusOr<std::unique_ptr<GroupLibrary>> groups) { groups_ = std::move(groups); }

  // From now on freed memory is kept until there is no other: the driver waits for the whole device before it
  // gives any back, and so for sums that wait for other ranks. Any thread.
  void KeepFreed() { keeps_freed_ = true; }

  CUstream compute_stream() const { return compute_stream_; }
  const CudaDevice& device() const { return *device_; }

 private:
  friend class CudaBuffer;
  // A piece of page-locked memory and the event after which it is free again.
  struct Staging {
    std::byte* memory = nullptr;
    CUevent event = nullptr;
    bool in_flight = false;
  };
  // A download that has not been copied to its destination.
  struct Arrival {
    size_t staging;  // in arrivals_staging_
    std::byte* to;
    size_t size_bytes;
  };
  // A fence: an event of the compute stream, and how many pieces of downloads were ever submitted before it,
  // each of which has its own event.
  struct Mark {
    CUevent reached = nullptr;
    uint64_t arrivals_before = 0;
    uint64_t value = 0;
    int waiters = 0;
  };

  CudaQueue(std::unique_ptr<CudaDevice> device, Bytes limit) : device_(std::move(device)), limit_(limit) {}
  const CudaDriver& driver() const { return device_->driver(); }
  absl::Status CreateStreams();
  void Free(CudaBuffer& buffer);
  // Gives back what is kept; false: nothing was.
  bool ReleaseFreed();
  absl::Status UploadPiece(absl::Span<const std::byte> from, CUdeviceptr to);
  absl::Status DownloadPiece(CUdeviceptr from, absl::Span<std::byte> to);
  // Copies the oldest arrivals to their destinations until `count` were ever copied. Blocks until each is
  // there.
  absl::Status Deliver(uint64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Drops fences that are reached and that nobody waits for.
  void DropReached() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status PoisonLocked(absl::Status error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CUevent TakeEvent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<CudaDevice> device_;
  const Bytes limit_;
  absl::StatusOr<std::unique_ptr<GroupLibrary>> groups_ = absl::UnavailableError("this queue was given none");
  CUstream compute_stream_ = nullptr, copy_stream_ = nullptr;
  std::atomic<int64_t> allocated_ = 0;
  std::atomic<int64_t> peak_allocated_ = 0;
  std::atomic<bool> poisoned_ = false;
  std::atomic<bool> keeps_freed_ = false;

  // The submitting thread alone uses these.
  std::vector<Staging> uploads_;
  size_t upload_ = 0, upload_bytes_ = 0;  // the staging that is being filled, and how far it is
  CUevent before_download_ = nullptr;

  mutable Mutex mutex_;
  std::vector<CUdeviceptr> freed_ ABSL_GUARDED_BY(mutex_);  // and kept
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::vector<Staging> arrivals_staging_ ABSL_GUARDED_BY(mutex_);
  std::deque<Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);  // oldest first
  uint64_t arrivals_submitted_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t arrivals_delivered_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t recorded_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::unique_ptr<Mark>> marks_ ABSL_GUARDED_BY(mutex_);  // oldest first, without gaps
  std::vector<CUevent> free_events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
