#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_queue.h"
#include "kernels/cuda/nccl_library.h"
#include "runtime/device/device_group.h"

namespace medley {

// Groups of GPUs by NCCL. A group has a stream of its own, and a communicator that never blocks: joining and
// summing are asked after, not waited for.
class NcclGroups final : public GroupLibrary {
 public:
  // Both outlive it.
  NcclGroups(CudaQueue& queue, const NcclLibrary& library) : queue_(queue), library_(library) {}

  std::string name() const override { return library_.Name(); }
  std::string device() const override { return queue_.device().properties().uuid; }
  absl::StatusOr<std::string> MakeId() override;
  // Besides the contract: InvalidArgument: `id` is none of MakeId().
  absl::StatusOr<std::unique_ptr<DeviceGroup>> Join(const std::string& id, int member, int members) override;

 private:
  CudaQueue& queue_;
  const NcclLibrary& library_;
};

}  // namespace medley
