#include "kernels/reference/gelu.h"

#include <cmath>

#include "kernels/reference/accept.h"

namespace medley {
namespace {

const double kScale = std::sqrt(2.0 / M_PI);
constexpr double kCubic = 0.044715;

// (1 + tanh(u)) / 2, without the cancellation for large negative u.
double HalfOnePlusTanh(double u) { return 1.0 / (1.0 + std::exp(-2.0 * u)); }

}  // namespace

double Gelu(double x) { return x * HalfOnePlusTanh(kScale * (x + kCubic * x * x * x)); }

double GeluGradient(double x) {
  const double u = kScale * (x + kCubic * x * x * x);
  const double du = kScale * (1.0 + 3.0 * kCubic * x * x);
  const double half = HalfOnePlusTanh(u);
  return half + x * 2.0 * half * HalfOnePlusTanh(-u) * du;
}

absl::Status ReferenceOps::GeluForward(const GeluForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* x = HostPointer<float>(args.x);
  float* y = HostPointer<float>(args.y);
  for (int64_t i = 0; i < args.elements; ++i) y[i] = static_cast<float>(Gelu(x[i]));
  return absl::OkStatus();
}

absl::Status ReferenceOps::GeluBackward(const GeluBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* x = HostPointer<float>(args.x);
  const float* dy = HostPointer<float>(args.dy);
  float* dx = HostPointer<float>(args.dx);
  for (int64_t i = 0; i < args.elements; ++i) dx[i] = static_cast<float>(dy[i] * GeluGradient(x[i]));
  return absl::OkStatus();
}

}  // namespace medley
