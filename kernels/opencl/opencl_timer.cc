#include <vector>

#include "kernels/opencl/opencl_queue.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Markers, whose ends the driver knows.
class OpenClTimer final : public QueueTimer {
 public:
  OpenClTimer(OpenClQueue& queue, int marks) : queue_(queue), events_(marks, nullptr) {}
  ~OpenClTimer() override {
    for (const cl_event event : events_) Release(event);
  }

  absl::Status Set(int index) override {
    Release(events_[index]);
    events_[index] = nullptr;
    RETURN_IF_ERROR(queue_.error());
    const cl_int code =
        queue_.opencl().clEnqueueMarkerWithWaitList(queue_.handle(), 0, nullptr, &events_[index]);
    return queue_.line().Submitted(code, "setting a mark");
  }

  absl::StatusOr<double> Seconds(int from, int to) override {
    ASSIGN_OR_RETURN(const cl_ulong begin, Nanoseconds(events_[from]));
    ASSIGN_OR_RETURN(const cl_ulong end, Nanoseconds(events_[to]));
    return 1e-9 * static_cast<double>(static_cast<int64_t>(end - begin));
  }

 private:
  void Release(cl_event event) {
    if (event != nullptr) queue_.opencl().clReleaseEvent(event);
  }
  absl::StatusOr<cl_ulong> Nanoseconds(cl_event event) {
    cl_ulong reached = 0;
    const cl_int code = queue_.opencl().clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END,
                                                                sizeof(reached), &reached, nullptr);
    if (code != CL_SUCCESS) return OpenClStatus(code, queue_.name() + ": asking when a mark was reached");
    return reached;
  }

  OpenClQueue& queue_;
  std::vector<cl_event> events_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<QueueTimer>> OpenClQueue::OpenTimer(int marks) {
  return std::make_unique<OpenClTimer>(*this, marks);
}

}  // namespace medley
