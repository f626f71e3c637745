#include "kernels/reference/accept.h"

namespace medley {

absl::Status ReferenceOps::Rotary(const RotaryArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const int64_t half = args.head_size / 2;
  for (int64_t i = 0; i < args.batch * args.sequence; ++i) {
    const float* cosine = HostPointer<float>(args.cosine) + i % args.sequence * half;
    const float* sine = HostPointer<float>(args.sine) + i % args.sequence * half;
    for (int64_t h = 0; h < args.rotated_heads; ++h) {
      float* v = HostPointer<float>(args.x) + (i * args.row_heads + h) * args.head_size;
      for (int64_t d = 0; d < half; ++d) {
        const double low = v[d], high = v[d + half], cos = cosine[d];
        const double sin = args.rotation == Rotation::kForward ? sine[d] : -sine[d];
        v[d] = static_cast<float>(low * cos - high * sin);
        v[d + half] = static_cast<float>(high * cos + low * sin);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
