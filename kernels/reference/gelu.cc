#include <cmath>

#include "kernels/reference/accept.h"

namespace medley {
namespace {

const double kScale = std::sqrt(2.0 / M_PI);
constexpr double kCubic = 0.044715;

// (1 + tanh(u)) / 2, without the cancellation for large negative u.
double HalfOnePlusTanh(double u) { return 1.0 / (1.0 + std::exp(-2.0 * u)); }

}  // namespace

absl::Status ReferenceOps::GeluForward(const GeluForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* x = HostPointer<float>(args.x);
  float* y = HostPointer<float>(args.y);
  for (int64_t i = 0; i < args.elements; ++i) {
    const double v = x[i];
    y[i] = static_cast<float>(v * HalfOnePlusTanh(kScale * (v + kCubic * v * v * v)));
  }
  return absl::OkStatus();
}

absl::Status ReferenceOps::GeluBackward(const GeluBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* x = HostPointer<float>(args.x);
  const float* dy = HostPointer<float>(args.dy);
  float* dx = HostPointer<float>(args.dx);
  for (int64_t i = 0; i < args.elements; ++i) {
    const double v = x[i];
    const double u = kScale * (v + kCubic * v * v * v);
    const double du = kScale * (1.0 + 3.0 * kCubic * v * v);
    const double half = HalfOnePlusTanh(u);
    dx[i] = static_cast<float>(dy[i] * (half + v * 2.0 * half * HalfOnePlusTanh(-u) * du));
  }
  return absl::OkStatus();
}

}  // namespace medley
