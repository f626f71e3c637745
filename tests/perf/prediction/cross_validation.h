#pragma once
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/roofline/pass_seconds.h"
#include "tests/perf/prediction/published_runs.h"

// Coefficients fitted on one part of what is published and judged on another.
namespace medley {

struct CrossValidation {
  // Predicted / measured - 1, parallel to the runs, none of which its fit has seen; NaN where nothing was published.
  std::vector<double> of_seconds, of_bytes;
  Calibration of_all;  // fitted on all runs
};

// Where fits start, and how far from there they are let go.
struct FitStart {
  Calibration calibration;
  double spread_scale = 1;
};

// Cuts `runs`, all of one kind and one software, into `folds` parts (or as many as there are runs,
// if that is fewer): the i-th is in part i modulo folds. Deterministic. PredictStep's errors.
absl::StatusOr<CrossValidation> CrossValidate(const DeviceFigures& figures,
                                              const std::vector<PublishedRun>& runs, int folds,
                                              const FitStart& start = {});

// The errors of `runs` with given coefficients, which `of_all` is then. PredictStep's errors.
absl::StatusOr<CrossValidation> Judge(const CalibratedDevice& device, const std::vector<PublishedRun>& runs);

}  // namespace medley
