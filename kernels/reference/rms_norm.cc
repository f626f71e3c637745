#include <cmath>
#include <vector>

#include "kernels/reference/accept.h"

namespace medley {

absl::Status ReferenceOps::RmsNormForward(const RmsNormForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* gamma = HostPointer<float>(args.gamma);
  if (args.columns == 0) return absl::OkStatus();
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* x = HostPointer<float>(args.x) + r * args.columns;
    float* y = HostPointer<float>(args.y) + r * args.columns;
    double squares = 0;
    for (int64_t c = 0; c < args.columns; ++c) squares += static_cast<double>(x[c]) * x[c];
    const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(args.columns) + args.epsilon);
    for (int64_t c = 0; c < args.columns; ++c) y[c] = static_cast<float>(x[c] * rstd * gamma[c]);
    HostPointer<float>(args.rstd)[r] = static_cast<float>(rstd);
  }
  return absl::OkStatus();
}

absl::Status ReferenceOps::RmsNormBackward(const RmsNormBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* gamma = HostPointer<float>(args.gamma);
  std::vector<double> dgamma(args.columns);
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* x = HostPointer<float>(args.x) + r * args.columns;
    const float* dy = HostPointer<float>(args.dy) + r * args.columns;
    float* dx = HostPointer<float>(args.dx) + r * args.columns;
    const double rstd = HostPointer<float>(args.rstd)[r];
    double projection = 0;  // mean of d normal * normal
    for (int64_t c = 0; c < args.columns; ++c) {
      const double normal = x[c] * rstd;
      projection += static_cast<double>(dy[c]) * gamma[c] * normal;
      dgamma[c] += dy[c] * normal;
    }
    projection /= static_cast<double>(args.columns);
    for (int64_t c = 0; c < args.columns; ++c) {
      const double value = (static_cast<double>(dy[c]) * gamma[c] - x[c] * rstd * projection) * rstd;
      dx[c] = static_cast<float>(args.store_dx == Store::kAdd ? dx[c] + value : value);
    }
  }
  float* dgamma_out = HostPointer<float>(args.dgamma);
  for (int64_t c = 0; c < args.columns; ++c) dgamma_out[c] = static_cast<float>(dgamma_out[c] + dgamma[c]);
  return absl::OkStatus();
}

}  // namespace medley
