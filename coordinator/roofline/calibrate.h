#pragma once
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/roofline/device_figures.h"

// Coefficients from what was measured: nonlinear least squares of relative errors, each coefficient held near where it
// starts as far as it is known (ridge regression on logarithms), so that a few measurements do not bend what they say
// nothing about.
namespace medley {

struct Measurement {
  double value = 0;                                     // measured seconds or bytes, positive
  std::function<double(const Calibration&)> predicted;  // the same, positive
};

struct CalibrationOptions {
  double error = 0.03;  // relative, expected of a prediction; errors far above it count in proportion (Huber)
  double spread_scale = 1;  // of all Coefficient::spread
  int most_rounds = 300;
};

// Pure and deterministic; `start` if there are no measurements.
Calibration Calibrate(const Calibration& start, absl::Span<const Measurement> measurements,
                      const CalibrationOptions& options = {});

}  // namespace medley
