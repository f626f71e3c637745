#include <vector>

#include "kernels/cuda/cuda_queue.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Events of the compute stream, whose distance the driver knows to half a microsecond.
class CudaTimer final : public QueueTimer {
 public:
  explicit CudaTimer(CudaQueue& queue) : queue_(queue) {}
  ~CudaTimer() override {
    if (!queue_.device().MakeCurrent().ok()) return;
    for (const CUevent event : events_) driver().cuEventDestroy(event);
  }

  absl::Status Create(int marks) {
    RETURN_IF_ERROR(queue_.device().MakeCurrent());
    for (int i = 0; i < marks; ++i) {
      CUevent event = nullptr;
      RETURN_IF_ERROR(driver().ToStatus(driver().cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"));
      events_.push_back(event);
    }
    return absl::OkStatus();
  }

  absl::Status Set(int index) override {
    RETURN_IF_ERROR(queue_.Enter());
    return queue_.Submitted(driver().cuEventRecord(events_[index], queue_.compute_stream()), "cuEventRecord");
  }

  absl::StatusOr<double> Seconds(int from, int to) override {
    RETURN_IF_ERROR(queue_.device().MakeCurrent());
    float milliseconds = 0;
    RETURN_IF_ERROR(driver().ToStatus(driver().cuEventElapsedTime(&milliseconds, events_[from], events_[to]),
                                      "cuEventElapsedTime"));
    return 1e-3 * milliseconds;
  }

 private:
  const CudaDriver& driver() const { return queue_.device().driver(); }

  CudaQueue& queue_;
  std::vector<CUevent> events_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<QueueTimer>> CudaQueue::OpenTimer(int marks) {
  auto timer = std::make_unique<CudaTimer>(*this);
  RETURN_IF_ERROR(timer->Create(marks));
  return timer;
}

}  // namespace medley
