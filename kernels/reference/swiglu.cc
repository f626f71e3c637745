#include <cmath>

#include "kernels/reference/accept.h"

namespace medley {

absl::Status ReferenceOps::SwiGluForward(const SwiGluForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* gate = HostPointer<float>(args.x) + r * 2 * args.columns;
    const float* up = gate + args.columns;
    float* y = HostPointer<float>(args.y) + r * args.columns;
    for (int64_t c = 0; c < args.columns; ++c) {
      const double g = gate[c];
      y[c] = static_cast<float>(g / (1.0 + std::exp(-g)) * up[c]);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceOps::SwiGluBackward(const SwiGluBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* gate = HostPointer<float>(args.x) + r * 2 * args.columns;
    const float* up = gate + args.columns;
    const float* dy = HostPointer<float>(args.dy) + r * args.columns;
    float* d_gate = HostPointer<float>(args.dx) + r * 2 * args.columns;
    float* d_up = d_gate + args.columns;
    for (int64_t c = 0; c < args.columns; ++c) {
      const double g = gate[c], d = dy[c], sigmoid = 1.0 / (1.0 + std::exp(-g));
      const double d_silu = sigmoid + g * sigmoid / (1.0 + std::exp(g));
      d_gate[c] = static_cast<float>(d * up[c] * d_silu);
      d_up[c] = static_cast<float>(d * g * sigmoid);
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
