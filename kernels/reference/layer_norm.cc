#include <cmath>
#include <vector>

#include "kernels/reference/accept.h"

namespace medley {

absl::Status ReferenceOps::LayerNormForward(const LayerNormForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* gamma = HostPointer<float>(args.gamma);
  const float* beta = HostPointer<float>(args.beta);
  if (args.columns == 0) return absl::OkStatus();
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* x = HostPointer<float>(args.x) + r * args.columns;
    float* y = HostPointer<float>(args.y) + r * args.columns;
    double mean = 0;
    for (int64_t c = 0; c < args.columns; ++c) mean += x[c];
    mean /= static_cast<double>(args.columns);
    double variance = 0;
    for (int64_t c = 0; c < args.columns; ++c) variance += (x[c] - mean) * (x[c] - mean);
    variance /= static_cast<double>(args.columns);
    const double rstd = 1.0 / std::sqrt(variance + args.epsilon);
    for (int64_t c = 0; c < args.columns; ++c) {
      y[c] = static_cast<float>((x[c] - mean) * rstd * gamma[c] + beta[c]);
    }
    HostPointer<float>(args.mean)[r] = static_cast<float>(mean);
    HostPointer<float>(args.rstd)[r] = static_cast<float>(rstd);
  }
  return absl::OkStatus();
}

absl::Status ReferenceOps::LayerNormBackward(const LayerNormBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* gamma = HostPointer<float>(args.gamma);
  std::vector<double> dgamma(args.columns), dbeta(args.columns);
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* x = HostPointer<float>(args.x) + r * args.columns;
    const float* dy = HostPointer<float>(args.dy) + r * args.columns;
    float* dx = HostPointer<float>(args.dx) + r * args.columns;
    const double mean = HostPointer<float>(args.mean)[r];
    const double rstd = HostPointer<float>(args.rstd)[r];
    double sum = 0, sum_normal = 0;  // of d normal, and of d normal * normal
    for (int64_t c = 0; c < args.columns; ++c) {
      const double normal = (x[c] - mean) * rstd;
      const double d_normal = static_cast<double>(dy[c]) * gamma[c];
      sum += d_normal;
      sum_normal += d_normal * normal;
      dgamma[c] += dy[c] * normal;
      dbeta[c] += dy[c];
    }
    sum /= static_cast<double>(args.columns);
    sum_normal /= static_cast<double>(args.columns);
    for (int64_t c = 0; c < args.columns; ++c) {
      const double normal = (x[c] - mean) * rstd;
      const double value = (static_cast<double>(dy[c]) * gamma[c] - sum - normal * sum_normal) * rstd;
      dx[c] = static_cast<float>(args.store_dx == Store::kAdd ? dx[c] + value : value);
    }
  }
  float* dgamma_out = HostPointer<float>(args.dgamma);
  float* dbeta_out = HostPointer<float>(args.dbeta);
  for (int64_t c = 0; c < args.columns; ++c) {
    dgamma_out[c] = static_cast<float>(dgamma_out[c] + dgamma[c]);
    dbeta_out[c] = static_cast<float>(dbeta_out[c] + dbeta[c]);
  }
  return absl::OkStatus();
}

}  // namespace medley
