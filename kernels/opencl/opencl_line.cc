#include "kernels/opencl/opencl_line.h"

#include <algorithm>
#include <utility>

#include "runtime/base/status_macros.h"

namespace medley {

absl::StatusOr<std::unique_ptr<OpenClLine>> OpenClLine::Open(const OpenClLibrary& opencl, cl_context context,
                                                             cl_device_id device, std::string name) {
  std::unique_ptr<OpenClLine> line(new OpenClLine(opencl, std::move(name)));
  cl_int code = CL_SUCCESS;
  // With profiling, so that a timer can ask when a marker was reached.
  line->queue_ = opencl.clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &code);
  if (code != CL_SUCCESS) return OpenClStatus(code, line->name_ + ": opening");
  return line;
}

OpenClLine::~OpenClLine() {
  if (queue_ == nullptr) return;
  opencl_.clFinish(queue_);
  {
    MutexLock lock(mutex_);
    for (const Mark& mark : marks_) opencl_.clReleaseEvent(mark.event);
  }
  opencl_.clReleaseCommandQueue(queue_);
}

Fence OpenClLine::Record() {
  MutexLock lock(mutex_);
  DropDoneMarks();
  const Fence fence{++recorded_};
  if (!error_.ok()) return fence;
  cl_event event = nullptr;
  cl_int code = opencl_.clEnqueueMarkerWithWaitList(queue_, 0, nullptr, &event);
  if (code == CL_SUCCESS) {
    marks_.push_back({fence.value, event});
    code = opencl_.clFlush(queue_);
  }
  if (code != CL_SUCCESS) PoisonLocked(OpenClStatus(code, name_ + ": recording"));
  return fence;
}

cl_event OpenClLine::EventOf(Fence fence) {
  const auto mark =
      std::find_if(marks_.begin(), marks_.end(), [&](const Mark& m) { return m.value >= fence.value; });
  if (mark == marks_.end()) return nullptr;
  opencl_.clRetainEvent(mark->event);
  return mark->event;
}

absl::Status OpenClLine::Wait(Fence fence) {
  cl_event event = nullptr;
  {
    MutexLock lock(mutex_);
    event = EventOf(fence);
    if (event == nullptr) return error_;
  }
  const cl_int waited = opencl_.clWaitForEvents(1, &event);
  absl::Status outcome = Outcome(event, nullptr);
  if (outcome.ok()) outcome = OpenClStatus(waited, name_ + ": waiting");
  opencl_.clReleaseEvent(event);
  if (!outcome.ok()) return Poison(std::move(outcome));
  MutexLock lock(mutex_);
  DropDoneMarks();
  return error_;
}

absl::Status OpenClLine::Await(OpenClLine& other, Fence fence) {
  RETURN_IF_ERROR(error());
  cl_event event = nullptr;
  {
    MutexLock lock(other.mutex_);
    if (!other.error_.ok()) return other.error_;
    event = other.EventOf(fence);
  }
  if (event == nullptr) return absl::OkStatus();
  // A marker is enough: the line is in order.
  const cl_int code = opencl_.clEnqueueMarkerWithWaitList(queue_, 1, &event, nullptr);
  opencl_.clReleaseEvent(event);
  return Submitted(code, "waiting for another line");
}

absl::Status OpenClLine::Outcome(cl_event event, cl_int* status) const {
  cl_int execution = CL_QUEUED;
  const cl_int code = opencl_.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(execution),
                                             &execution, nullptr);
  if (status != nullptr) *status = execution;
  if (code != CL_SUCCESS) return OpenClStatus(code, name_ + ": asking for the state of a command");
  return execution >= 0 ? absl::OkStatus() : OpenClStatus(execution, name_ + ": running");
}

void OpenClLine::DropDoneMarks() {
  while (!marks_.empty()) {
    cl_int status = CL_QUEUED;
    const absl::Status outcome = Outcome(marks_.front().event, &status);
    if (!outcome.ok()) PoisonLocked(outcome);
    if (outcome.ok() && status != CL_COMPLETE) return;
    opencl_.clReleaseEvent(marks_.front().event);
    marks_.pop_front();
  }
}

absl::Status OpenClLine::Submitted(cl_int code, const std::string& doing) {
  return code == CL_SUCCESS ? absl::OkStatus() : Poison(OpenClStatus(code, name_ + ": " + doing));
}

absl::Status OpenClLine::Poison(absl::Status error) {
  MutexLock lock(mutex_);
  PoisonLocked(std::move(error));
  return error_;
}

void OpenClLine::PoisonLocked(absl::Status error) {
  if (error_.ok()) error_ = std::move(error);
}

absl::Status OpenClLine::error() const {
  MutexLock lock(mutex_);
  return error_;
}

}  // namespace medley
