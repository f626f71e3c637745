// In place of cuda_backend.cc where no CUDA toolkit was found.
#include <string>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_variant.h"

namespace medley {
namespace {

constexpr char kReason[] = "this build has no CUDA support (the CUDA toolkit was not found at build time)";

std::string Objection(const DeviceDescription& description) {
  const auto variant = ParseCudaVariant(description.variant);
  return variant.ok() ? kReason : std::string(variant.status().message());
}

absl::StatusOr<Device> Open(const DeviceDescription& description) {
  const auto variant = ParseCudaVariant(description.variant);
  if (!variant.ok()) return variant.status();
  return absl::UnavailableError(kReason);
}

}  // namespace

Backend CudaBackend() { return {.name = "cuda", .open = Open, .objection = Objection}; }

}  // namespace medley
