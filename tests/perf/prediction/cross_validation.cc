#include "tests/perf/prediction/cross_validation.h"

#include <algorithm>

#include "coordinator/roofline/calibrate.h"
#include "coordinator/roofline/step_prediction.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// The simulator is too slow to be asked for every derivative. What it says of a run relative to the closed form depends
// little on the coefficients: it is asked once a round, and the closed form in between.
absl::StatusOr<Calibration> Fit(const DeviceFigures& figures, const std::vector<const PublishedRun*>& runs) {
  constexpr int kRounds = 2;
  Calibration calibration;
  for (int round = 0; round < kRounds; ++round) {
    const CalibratedDevice device{figures, calibration};
    std::vector<Measurement> measurements;
    for (const PublishedRun* published : runs) {
      const TrainingRun& run = published->run;
      ASSIGN_OR_RETURN(const double simulated, PipelineSeconds(device, run));
      const double ratio = simulated / ApproximatePipelineSeconds(device, run);
      measurements.push_back({published->step_seconds, [&figures, &run, ratio](const Calibration& at) {
                                const CalibratedDevice tried{figures, at};
                                return ratio * ApproximatePipelineSeconds(tried, run) +
                                       AfterPipelineSeconds(tried, run);
                              }});
    }
    calibration = Calibrate(Calibration{}, measurements);
  }
  return calibration;
}

}  // namespace

absl::StatusOr<CrossValidation> CrossValidate(const DeviceFigures& figures,
                                              const std::vector<PublishedRun>& runs, int folds) {
  const int parts = std::min<int>(folds, static_cast<int>(runs.size()));
  CrossValidation result;
  result.errors.resize(runs.size());
  std::vector<const PublishedRun*> all;
  for (const PublishedRun& run : runs) all.push_back(&run);
  for (int part = 0; part < parts; ++part) {
    std::vector<const PublishedRun*> others;
    for (size_t i = 0; i < all.size(); ++i) {
      if (static_cast<int>(i) % parts != part) others.push_back(all[i]);
    }
    ASSIGN_OR_RETURN(const Calibration calibration, Fit(figures, others));
    for (size_t i = part; i < all.size(); i += parts) {
      ASSIGN_OR_RETURN(const double seconds, RooflineStepSeconds({figures, calibration}, all[i]->run));
      result.errors[i] = seconds / all[i]->step_seconds - 1;
    }
  }
  ASSIGN_OR_RETURN(result.of_all, Fit(figures, all));
  return result;
}

}  // namespace medley
