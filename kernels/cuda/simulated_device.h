#pragma once
#include <string>

#include "kernels/cuda/cuda_driver.h"
#include "kernels/cuda/nccl_library.h"
#include "runtime/device/device.h"

namespace medley {

// A whole device over the simulated driver (simulated_driver.h): the real queue and copy lanes of a GPU, and
// the reference's ops as kernels that run in their stream's turn. Whoever relies on an order that nothing
// asks for computes something else for some seed. `nccl`: by which it joins groups (simulated_nccl.h); null:
// it is not found. Errors: CudaQueue::Create's.
absl::StatusOr<Device> OpenSimulatedDevice(const CudaDriver& driver, Bytes memory_limit, int ordinal = 0,
                                           const NcclLibrary* nccl = nullptr);

}  // namespace medley
