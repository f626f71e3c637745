#pragma once
#include <algorithm>

#include "kernels/arguments/op_arguments.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/host/host_slice.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/op_slices.h"

namespace medley {

template <typename Args>
absl::Status CpuOps::Accept(const Args& args) {
  RETURN_IF_ERROR(CheckArguments(args));
  return Ready();
}

template <typename Args>
absl::Status CpuOps::AcceptTyped(const Args& args) {
  RETURN_IF_ERROR(CheckTypedArguments(args));
  Args asked = args;
  for (const OpSlice& operand : SlicesOf(asked)) {
    if (operand.typed && operand.dtype == Dtype::kF16)
      return absl::UnimplementedError("takes f32 and bf16 tensors alone");
  }
  return Ready();
}

inline TypedMatrix TypedMatrixOf(const Slice& slice, Transpose transpose = Transpose::kNo) {
  return {HostPointer<void>(slice), slice.dtype, transpose};
}

// Elementwise work is cut into chunks of this many elements, whatever the number of threads; 64 KiB a stream
// stays in the second-level cache.
inline constexpr int64_t kChunkElements = 16384;

// Calls work(first, count) for every chunk of [0, elements), by all threads if there is more than one chunk.
template <typename Work>
void ForEachChunk(int64_t elements, const Work& work) {
#pragma omp parallel for schedule(static) if (elements > kChunkElements)
  for (int64_t first = 0; first < elements; first += kChunkElements) {
    work(first, std::min(kChunkElements, elements - first));
  }
}

}  // namespace medley
