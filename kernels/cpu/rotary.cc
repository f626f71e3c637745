#include "kernels/cpu/accept.h"

namespace medley {

absl::Status CpuOps::Rotary(const RotaryArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* cosine = HostPointer<float>(args.cosine);
  const float* sine = HostPointer<float>(args.sine);
  float* x = HostPointer<float>(args.x);
  const float sign = args.rotation == Rotation::kForward ? 1.0f : -1.0f;
  const int64_t half = args.head_size / 2, row = args.row_heads * args.head_size;
  const int64_t rows = args.batch * args.sequence;
#pragma omp parallel for schedule(static) if (rows * row > kChunkElements)
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t angles = i % args.sequence * half;
    kernels_.rotary(x + i * row, cosine + angles, sine + angles, args.rotated_heads, half, sign);
  }
  return absl::OkStatus();
}

}  // namespace medley
