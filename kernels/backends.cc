#include "kernels/backends.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"

namespace medley {

std::vector<Backend> AllBackends() { return {CpuBackend(), ReferenceBackend()}; }

}  // namespace medley
