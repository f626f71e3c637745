#include "kernels/backends.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/emulated/emulated_backend.h"
#include "kernels/opencl/opencl_backend.h"
#include "kernels/reference/reference_backend.h"

namespace medley {

std::vector<Backend> AllBackends() {
  return {CpuBackend(), CudaBackend(), ReferenceBackend(), EmulatedBackend(), OpenClBackend()};
}

}  // namespace medley
