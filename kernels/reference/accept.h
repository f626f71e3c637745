#pragma once
#include "kernels/arguments/op_arguments.h"
#include "kernels/host/host_slice.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/base/bf16.h"
#include "runtime/base/f16.h"
#include "runtime/base/status_macros.h"

namespace medley {

template <typename Args>
absl::Status ReferenceOps::Accept(const Args& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  return queue_.error();
}

// `x` as an operand of a product in `precision`.
inline double Operand(float x, Precision precision) {
  switch (precision) {
    case Precision::kF32:
      break;
    case Precision::kBf16:
      return RoundToBf16(x);
    case Precision::kF16:
      return RoundToF16(x);
  }
  return x;
}

}  // namespace medley
