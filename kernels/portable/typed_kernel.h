#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/arguments/op_arguments.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/op_slices.h"

namespace medley {

// The type in which all tensors of activations of an op are stored. Errors: as CheckTypedArguments;
// Unimplemented: they are of several types.
template <typename Args>
absl::StatusOr<Dtype> OneTypeOf(Args args) {
  RETURN_IF_ERROR(CheckTypedArguments(args));
  const OpSlice* first = nullptr;
  const OpSlices operands = SlicesOf(args);
  for (const OpSlice& operand : operands) {
    if (!operand.typed || operand.slice->buffer == nullptr) continue;
    if (first == nullptr) first = &operand;
    if (operand.slice->dtype != first->slice->dtype) {
      return absl::UnimplementedError(
          absl::StrCat(first->name, " and ", operand.name, " are of unlike types"));
    }
  }
  return first == nullptr ? Dtype::kF32 : first->slice->dtype;
}

// The one of a type, of a kernel that kernels/portable/source/typed has for each.
inline std::string KernelOf(const char* kernel, Dtype dtype) {
  return absl::StrCat(kernel, dtype == Dtype::kF32 ? "" : dtype == Dtype::kBf16 ? "_bf16" : "_f16");
}
// The one for the tensors of an op.
template <typename Args>
absl::StatusOr<std::string> TypedKernel(const char* kernel, const Args& args) {
  ASSIGN_OR_RETURN(const Dtype dtype, OneTypeOf(args));
  return KernelOf(kernel, dtype);
}

}  // namespace medley
