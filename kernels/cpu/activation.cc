#include "kernels/cpu/accept.h"

namespace medley {

absl::Status CpuOps::GeluForward(const GeluForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* x = HostPointer<float>(args.x);
  float* y = HostPointer<float>(args.y);
  return Run("GeluForward", [&] {
    ForEachChunk(args.elements,
                 [&](int64_t first, int64_t count) { kernels_.gelu_forward(x + first, y + first, count); });
  });
}

absl::Status CpuOps::GeluBackward(const GeluBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* x = HostPointer<float>(args.x);
  const float* dy = HostPointer<float>(args.dy);
  float* dx = HostPointer<float>(args.dx);
  return Run("GeluBackward", [&] {
    ForEachChunk(args.elements, [&](int64_t first, int64_t count) {
      kernels_.gelu_backward(x + first, dy + first, dx + first, count);
    });
  });
}

absl::Status CpuOps::SwiGluForward(const SwiGluForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* x = HostPointer<float>(args.x);
  float* y = HostPointer<float>(args.y);
  const int64_t columns = args.columns;
  return Run("SwiGluForward", [&] {
#pragma omp parallel for schedule(static) if (args.rows * columns > kChunkElements)
    for (int64_t r = 0; r < args.rows; ++r) {
      kernels_.swiglu_forward(x + r * 2 * columns, y + r * columns, 1, columns);
    }
  });
}

absl::Status CpuOps::SwiGluBackward(const SwiGluBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* x = HostPointer<float>(args.x);
  const float* dy = HostPointer<float>(args.dy);
  float* dx = HostPointer<float>(args.dx);
  const int64_t columns = args.columns;
  return Run("SwiGluBackward", [&] {
#pragma omp parallel for schedule(static) if (args.rows * columns > kChunkElements)
    for (int64_t r = 0; r < args.rows; ++r) {
      kernels_.swiglu_backward(x + r * 2 * columns, dy + r * columns, dx + r * 2 * columns, 1, columns);
    }
  });
}

}  // namespace medley
