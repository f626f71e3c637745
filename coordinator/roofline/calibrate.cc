#include "coordinator/roofline/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace medley {
namespace {

constexpr int kCount = kCoefficients.size();
using Vector = std::array<double, kCount>;
using Matrix = std::array<Vector, kCount>;

Calibration At(const Calibration& start, const Vector& logarithms) {
  Calibration calibration = start;
  for (int i = 0; i < kCount; ++i) calibration.*kCoefficients[i].value *= std::exp(logarithms[i]);
  return calibration;
}

// Solves a symmetric, positive definite system in place (Cholesky).
Vector Solve(Matrix a, Vector b) {
  for (int i = 0; i < kCount; ++i) {
    for (int j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (int k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  }
  for (int i = 0; i < kCount; ++i) {
    for (int k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (int i = kCount - 1; i >= 0; --i) {
    for (int k = i + 1; k < kCount; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

class Fit {
 public:
  Fit(const Calibration& start, absl::Span<const Measurement> measurements, const CalibrationOptions& options)
      : start_(start), measurements_(measurements), options_(options) {}

  Calibration Run() const {
    Vector at{};
    double loss = Loss(at);
    double damping = 1e-3;
    for (int round = 0; round < options_.most_rounds; ++round) {
      Matrix curvature{};
      Vector descent{};
      Linearise(at, curvature, descent);
      double improved = loss;
      while (damping < 1e6) {
        Matrix damped = curvature;
        for (int i = 0; i < kCount; ++i) damped[i][i] *= 1 + damping;
        Vector next = Solve(damped, descent);
        for (int i = 0; i < kCount; ++i) next[i] = at[i] + std::clamp(next[i], -1.0, 1.0);
        improved = Loss(next);
        if (improved < loss) {
          at = next;
          damping /= 10;
          break;
        }
        damping *= 10;
      }
      const bool settled = improved >= loss * (1 - 1e-6);
      loss = std::min(loss, improved);
      if (settled) break;
    }
    return At(start_, at);
  }

 private:
  double Residual(const Measurement& measurement, const Calibration& calibration) const {
    return std::log(measurement.predicted(calibration) / measurement.value) / options_.error;
  }

  double Spread(int coefficient) const { return kCoefficients[coefficient].spread * options_.spread_scale; }

  double Loss(const Vector& at) const {
    const Calibration calibration = At(start_, at);
    double loss = 0;
    for (const Measurement& measurement : measurements_) {
      const double residual = std::abs(Residual(measurement, calibration));
      loss += residual <= kLinearFrom ? residual * residual : kLinearFrom * (2 * residual - kLinearFrom);
    }
    for (int i = 0; i < kCount; ++i) loss += std::pow(at[i] / Spread(i), 2);
    return loss;
  }

  // Gauss and Newton's step is curvature^-1 descent.
  void Linearise(const Vector& at, Matrix& curvature, Vector& descent) const {
    constexpr double kStep = 1e-4;
    const Calibration calibration = At(start_, at);
    std::array<Calibration, kCount> beside;
    for (int i = 0; i < kCount; ++i) {
      beside[i] = calibration;
      beside[i].*kCoefficients[i].value *= std::exp(kStep);
    }
    for (const Measurement& measurement : measurements_) {
      const double residual = Residual(measurement, calibration);
      const double weight = std::abs(residual) <= kLinearFrom ? 1 : kLinearFrom / std::abs(residual);
      Vector slope;
      for (int i = 0; i < kCount; ++i) slope[i] = (Residual(measurement, beside[i]) - residual) / kStep;
      for (int i = 0; i < kCount; ++i) {
        descent[i] -= weight * slope[i] * residual;
        for (int j = 0; j < kCount; ++j) curvature[i][j] += weight * slope[i] * slope[j];
      }
    }
    for (int i = 0; i < kCount; ++i) {
      curvature[i][i] += 1 / (Spread(i) * Spread(i));
      descent[i] -= at[i] / (Spread(i) * Spread(i));
    }
  }

  static constexpr double kLinearFrom = 3;
  const Calibration& start_;
  const absl::Span<const Measurement> measurements_;
  const CalibrationOptions& options_;
};

}  // namespace

Calibration Calibrate(const Calibration& start, absl::Span<const Measurement> measurements,
                      const CalibrationOptions& options) {
  return Fit(start, measurements, options).Run();
}

}  // namespace medley
