#pragma once
#include "kernels/arguments/op_arguments.h"
#include "kernels/host/host_slice.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/base/narrow.h"
#include "runtime/base/status_macros.h"

namespace medley {

template <typename Args>
absl::Status ReferenceOps::Accept(const Args& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  return queue_.error();
}

// `x` as an operand of a product in `precision`.
inline double Operand(float x, Precision precision) {
  const Dtype dtype = TypeOf(precision);
  return dtype == Dtype::kF32 ? x : FromNarrow(ToNarrow(x, dtype), dtype);
}

}  // namespace medley
