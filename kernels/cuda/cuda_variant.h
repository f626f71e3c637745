#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace medley {

// What DeviceDescription::variant says of a CUDA device: the GPU's number and what differs from the default,
// joined by colons, as in "", "1", "0:tf32" or "0:tf32:no-cudnn".
struct CudaVariant {
  enum class F32Matmul {
    kExact,
    // "tf32": f32 products may use the tensor cores' 10 bits of fraction.
    kTf32
  };
  enum class Attention { kCudnnFirst, kOwnKernels };  // "no-cudnn": attention by the portable kernels alone

  int ordinal = 0;
  F32Matmul f32_matmul = F32Matmul::kExact;
  Attention attention = Attention::kCudnnFirst;
};

// InvalidArgument: anything else, with what is allowed.
absl::StatusOr<CudaVariant> ParseCudaVariant(const std::string& text);

}  // namespace medley
