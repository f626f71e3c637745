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

}  // namespace medley
