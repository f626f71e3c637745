#pragma once
#include <cuda.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/host/dynamic_library.h"

#define MEDLEY_EACH_CUDA_FUNCTION(X) \
  X(cuInit)                          \
  X(cuGetErrorName)                  \
  X(cuGetErrorString)                \
  X(cuDriverGetVersion)              \
  X(cuDeviceGetCount)                \
  X(cuDeviceGet)                     \
  X(cuDeviceGetName)                 \
  X(cuDeviceGetAttribute)            \
  X(cuDeviceGetUuid)                 \
  X(cuDeviceTotalMem)                \
  X(cuDevicePrimaryCtxRetain)        \
  X(cuDevicePrimaryCtxRelease)       \
  X(cuCtxSetCurrent)                 \
  X(cuMemAlloc)                      \
  X(cuMemFree)                       \
  X(cuMemAllocHost)                  \
  X(cuMemFreeHost)                   \
  X(cuMemsetD8Async)                 \
  X(cuMemcpyHtoDAsync)               \
  X(cuMemcpyDtoHAsync)               \
  X(cuStreamCreate)                  \
  X(cuStreamDestroy)                 \
  X(cuStreamSynchronize)             \
  X(cuStreamWaitEvent)               \
  X(cuEventCreate)                   \
  X(cuEventDestroy)                  \
  X(cuEventRecord)                   \
  X(cuEventElapsedTime)              \
  X(cuEventQuery)                    \
  X(cuEventSynchronize)              \
  X(cuModuleLoadData)                \
  X(cuModuleUnload)                  \
  X(cuModuleGetFunction)             \
  X(cuFuncSetAttribute)              \
  X(cuLaunchKernel)

namespace medley {

// The functions of the NVIDIA driver that Medley calls, from libcuda.so.1, initialised.
struct CudaDriver {
  MEDLEY_EACH_CUDA_FUNCTION(MEDLEY_DYNAMIC_MEMBER)

  // The one table of this process, loaded at the first call; lives for ever. Any thread.
  // Unavailable: no driver, or one that finds no GPU or is too old, with its words.
  static absl::StatusOr<const CudaDriver*> Get();

  // OK for CUDA_SUCCESS; ResourceExhausted for CUDA_ERROR_OUT_OF_MEMORY; otherwise Internal. The message is
  // `what`, the error's name and the driver's words for it.
  absl::Status ToStatus(CUresult result, const std::string& what) const;
};

}  // namespace medley
