#pragma once
#include <string>

#include "kernels/cuda/cuda_driver.h"
#include "runtime/device/device.h"

namespace medley {

// A whole device over the simulated driver (simulated_driver.h): the real queue and copy lanes of a GPU, and
// the reference's ops as kernels that run in their stream's turn. Whoever relies on an order that nothing
// asks for computes something else for some seed. Errors: CudaQueue::Create's.
absl::StatusOr<Device> OpenSimulatedDevice(const CudaDriver& driver, Bytes memory_limit);

}  // namespace medley
