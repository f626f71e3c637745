// In place of cuda_backend.cc where no CUDA toolkit was found.
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_variant.h"

namespace medley {
namespace {

constexpr char kReason[] = "this build has no CUDA support (the CUDA toolkit was not found at build time)";

absl::Status Objection(const DeviceDescription& description) {
  const auto variant = ParseCudaVariant(description.variant);
  return variant.ok() ? absl::UnavailableError(kReason) : variant.status();
}

absl::StatusOr<Device> Open(const DeviceDescription& description) { return Objection(description); }

}  // namespace

Backend CudaBackend() { return {.name = "cuda", .open = Open, .objection = Objection}; }

}  // namespace medley
