#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "kernels/opencl/opencl_device.h"
#include "kernels/opencl/opencl_line.h"
#include "runtime/device/copy_lane.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/queue_timer.h"

namespace medley {

// An in-order command queue of one OpenCL device, and the context of its buffers. The host addresses none of
// them.
//
// What the driver refuses, and work that it reports as failed when it is waited for, poisons the queue with
// the driver's words; from then on Wait() and every submission return that first error.
class OpenClQueue final : public DeviceQueue {
 public:
  // `limit`: the most bytes of live Buffers; no more than the device has.
  // Unavailable: the driver cannot make a context or a queue, with its words.
  static absl::StatusOr<std::unique_ptr<OpenClQueue>> Create(const OpenClLibrary& opencl,
                                                             const OpenClDevice& device, Bytes limit);
  // Waits for all work.
  ~OpenClQueue() override;

  std::string name() const override { return "opencl " + device_.title(); }
  // Besides the contract: InvalidArgument if `size` is negative. ResourceExhausted also if the device has no
  // more memory, or no buffer as large.
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(Bytes size) override;
  absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) override;
  absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) override;
  Fence Record() override { return line_->Record(); }
  absl::Status Wait(Fence fence) override { return line_->Wait(fence); }
  absl::StatusOr<std::unique_ptr<CopyLane>> OpenCopyLane() override;
  absl::Status AwaitLane(CopyLane& lane, Fence fence) override;
  absl::StatusOr<std::unique_ptr<QueueTimer>> OpenTimer(int marks) override;
  Bytes allocated() const override { return {allocated_.load()}; }
  Bytes peak_allocated() const override { return {peak_allocated_.load()}; }
  Bytes limit() const override { return limit_; }

  // The memory of a buffer of this queue.
  static cl_mem MemoryOf(const Buffer& buffer);

  // Makes `error` (not OK) the queue's error, unless it has one. Returns the queue's error. Any thread.
  absl::Status Poison(absl::Status error) { return line_->Poison(std::move(error)); }

  // The queue's first error, or OK. Any thread.
  absl::Status error() const { return line_->error(); }

  // For what else submits to the queue.
  const OpenClLibrary& opencl() const { return opencl_; }
  const OpenClDevice& device() const { return device_; }
  cl_context context() const { return context_; }
  cl_command_queue handle() const { return line_->handle(); }
  OpenClLine& line() { return *line_; }

 private:
  friend class OpenClBuffer;
  struct Staged {
    std::vector<std::byte> bytes;
    cl_event event;
  };

  OpenClQueue(const OpenClLibrary& opencl, OpenClDevice device, Bytes limit)
      : opencl_(opencl), device_(std::move(device)), limit_(limit) {}
  absl::StatusOr<std::unique_ptr<Buffer>> Create(Bytes size);
  void DropDoneUploads();

  const OpenClLibrary& opencl_;
  const OpenClDevice device_;
  const Bytes limit_;
  cl_context context_ = nullptr;
  std::unique_ptr<OpenClLine> line_;
  std::deque<Staged> uploads_;  // of the submitting thread
  std::atomic<int64_t> allocated_ = 0;
  std::atomic<int64_t> peak_allocated_ = 0;
};

}  // namespace medley
