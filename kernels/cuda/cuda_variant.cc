#include "kernels/cuda/cuda_variant.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace medley {

absl::StatusOr<CudaVariant> ParseCudaVariant(const std::string& text) {
  CudaVariant variant;
  if (text.empty()) return variant;
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  bool is_known = absl::SimpleAtoi(parts[0], &variant.ordinal) && variant.ordinal >= 0;
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == "tf32") {
      variant.f32_matmul = CudaVariant::F32Matmul::kTf32;
    } else if (parts[i] == "no-cudnn") {
      variant.attention = CudaVariant::Attention::kOwnKernels;
    } else {
      is_known = false;
    }
  }
  if (is_known) return variant;
  return absl::InvalidArgumentError(
      absl::StrCat("variant \"", text,
                   "\" is unknown; the cuda backend has the GPU's number, by default 0, and after it "
                   ":tf32 and :no-cudnn, as in \"1:tf32\""));
}

}  // namespace medley
