#pragma once
#include <deque>
#include <memory>
#include <string>

#include "kernels/opencl/opencl_library.h"
#include "runtime/base/mutex.h"
#include "runtime/device/device_queue.h"

namespace medley {

// An in-order command queue of the driver, with fences. What the driver refuses, and work that it reports as
// failed when it is waited for, poisons the line with the driver's words. Any thread.
class OpenClLine {
 public:
  // `name` stands before the driver's words. Errors: those, as OpenClStatus.
  static absl::StatusOr<std::unique_ptr<OpenClLine>> Open(const OpenClLibrary& opencl, cl_context context,
                                                          cl_device_id device, std::string name);
  // Waits for all work.
  ~OpenClLine();

  cl_command_queue handle() const { return queue_; }

  Fence Record();
  absl::Status Wait(Fence fence);
  // Commands that are enqueued from now on begin when `other`, of the same context, has reached its `fence`.
  // Returns the error of either.
  absl::Status Await(OpenClLine& other, Fence fence);

  // How the command of `event` went; not OK once it has failed.
  absl::Status Outcome(cl_event event, cl_int* status) const;
  // OK for CL_SUCCESS, otherwise poisons the line; `doing` as in "uploading".
  absl::Status Submitted(cl_int code, const std::string& doing);
  // Makes `error` (not OK) the line's error, unless it has one. Returns the line's error.
  absl::Status Poison(absl::Status error);
  // The first error, or OK.
  absl::Status error() const;

 private:
  struct Mark {
    uint64_t value;
    cl_event event;
  };
  OpenClLine(const OpenClLibrary& opencl, std::string name) : opencl_(opencl), name_(std::move(name)) {}
  // The event of `fence`, to be released by the caller; null if it was reached.
  cl_event EventOf(Fence fence) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropDoneMarks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PoisonLocked(absl::Status error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OpenClLibrary& opencl_;
  const std::string name_;
  cl_command_queue queue_ = nullptr;
  mutable Mutex mutex_;
  uint64_t recorded_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Mark> marks_ ABSL_GUARDED_BY(mutex_);  // that may not have been reached, ascending
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
