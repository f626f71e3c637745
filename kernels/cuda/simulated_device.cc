#include "kernels/cuda/simulated_device.h"

#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/arguments/op_arguments.h"
#include "kernels/cuda/cuda_queue.h"
#include "kernels/cuda/nccl_groups.h"
#include "kernels/cuda/simulated_driver.h"
#include "kernels/host/host_queue.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/converting_ops.h"
#include "runtime/device/op_slices.h"
#include "runtime/device/uniform_ops.h"

namespace medley {
namespace {

// A buffer of the simulated GPU as its kernels see it: its memory is the host's.
class KernelView final : public Buffer {
 public:
  explicit KernelView(Buffer& buffer) : address_(buffer.device_address().address), size_(buffer.size()) {}
  Bytes size() const override { return size_; }
  std::byte* host_address() override { return address_; }

 private:
  std::byte* const address_;
  const Bytes size_;
};

class SimulatedOps final : public UniformOps<SimulatedOps> {
 public:
  explicit SimulatedOps(CudaQueue& queue)
      : queue_(queue), host_("kernels", {std::numeric_limits<int64_t>::max()}), reference_(host_) {}

  template <typename Args>
  absl::Status Submit(const Args& args) {
    RETURN_IF_ERROR(CheckArguments(args));
    RETURN_IF_ERROR(queue_.Enter());
    Args kernel = args;
    for (const OpSlice& operand : SlicesOf(kernel)) {
      RETURN_IF_ERROR(queue_.Address(*operand.slice).status());  // orders it after downloads under way
    }
    std::vector<AdamWRange> ranges;  // are read at submission
    if constexpr (std::is_same_v<Args, AdamWArgs>) ranges.assign(args.ranges.begin(), args.ranges.end());
    simulated::Launch(queue_.compute_stream(), [this, kernel, ranges]() mutable {
      if constexpr (std::is_same_v<Args, AdamWArgs>) kernel.ranges = ranges;
      std::vector<std::unique_ptr<KernelView>> views;
      for (const OpSlice& operand : SlicesOf(kernel)) {
        views.push_back(std::make_unique<KernelView>(*operand.slice->buffer));
        operand.slice->buffer = views.back().get();
      }
      if (const absl::Status status = RunOp(reference_, kernel); !status.ok())
        queue_.Poison(status).IgnoreError();
    });
    return absl::OkStatus();
  }
  void ParametersChanged() override {}

 private:
  CudaQueue& queue_;
  HostQueue host_;
  ReferenceOps reference_;
};

}  // namespace

absl::StatusOr<Device> OpenSimulatedDevice(const CudaDriver& driver, Bytes memory_limit, int ordinal,
                                           const NcclLibrary* nccl) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> gpu, CudaDevice::Open(driver, ordinal));
  ASSIGN_OR_RETURN(std::unique_ptr<CudaQueue> queue, CudaQueue::Create(std::move(gpu), memory_limit));
  if (nccl != nullptr) {
    queue->SetGroups(std::make_unique<NcclGroups>(*queue, *nccl));
  } else {
    queue->SetGroups(absl::UnavailableError("NCCL is not found"));
  }
  Device device;
  device.ops = std::make_unique<ConvertingOps>(*queue, std::make_unique<SimulatedOps>(*queue));
  device.queue = std::move(queue);
  device.computes = {.bf16 = true, .f16 = true};
  return device;
}

}  // namespace medley
