#include "tests/perf/prediction/cross_validation.h"

#include <algorithm>
#include <limits>

#include "coordinator/roofline/calibrate.h"
#include "coordinator/roofline/step_prediction.h"
#include "coordinator/roofline/training_memory.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr double kGibibyte = 1 << 30;

// Of each run, what lies on its pipeline's critical path with such coefficients.
absl::StatusOr<std::vector<PipelineCounts>> CountsOf(const CalibratedDevice& device,
                                                     const std::vector<const PublishedRun*>& runs) {
  std::vector<PipelineCounts> counts;
  for (const PublishedRun* published : runs) {
    const TrainingRun& run = published->run;
    if (published->step_seconds <= 0) {
      counts.emplace_back();
      continue;
    }
    ASSIGN_OR_RETURN(const PipelineCounts of_run, PipelineCountsOf(PipelineTimesOf(device, run), run));
    counts.push_back(of_run);
  }
  return counts;
}

Calibration FitTo(const DeviceFigures& figures, const std::vector<const PublishedRun*>& runs,
                  const std::vector<PipelineCounts>& counts, const FitStart& start) {
  std::vector<Measurement> measurements;
  for (size_t i = 0; i < runs.size(); ++i) {
    const TrainingRun& run = runs[i]->run;
    if (runs[i]->step_seconds > 0) {
      const PipelineCounts& of_run = counts[i];
      measurements.push_back({runs[i]->step_seconds, [&](const Calibration& at) {
                                const CalibratedDevice device{figures, at};
                                return of_run.Seconds(PipelineTimesOf(device, run)) +
                                       AfterPipelineSeconds(device, run);
                              }});
    }
    if (runs[i]->memory_gibibytes > 0) {
      measurements.push_back({runs[i]->memory_gibibytes * kGibibyte,
                              [&](const Calibration& at) { return MemoryBytes(at, run); }});
    }
  }
  return Calibrate(start.calibration, measurements, {.spread_scale = start.spread_scale});
}

// The simulator is too slow to be asked for every derivative: it says before each of a few fits what lies on the critical
// paths. `first`: with the coefficients that fits start from.
absl::StatusOr<Calibration> Fit(const DeviceFigures& figures, const std::vector<const PublishedRun*>& runs,
                                const std::vector<PipelineCounts>& first, const FitStart& start) {
  constexpr int kMoreRounds = 1;
  Calibration calibration = FitTo(figures, runs, first, start);
  for (int round = 0; round < kMoreRounds; ++round) {
    ASSIGN_OR_RETURN(const std::vector<PipelineCounts> counts, CountsOf({figures, calibration}, runs));
    calibration = FitTo(figures, runs, counts, start);
  }
  return calibration;
}

}  // namespace

absl::StatusOr<CrossValidation> CrossValidate(const DeviceFigures& figures,
                                              const std::vector<PublishedRun>& runs, int folds,
                                              const FitStart& start) {
  const int parts = std::min<int>(folds, static_cast<int>(runs.size()));
  CrossValidation result;
  result.of_seconds.resize(runs.size(), std::numeric_limits<double>::quiet_NaN());
  result.of_bytes = result.of_seconds;
  std::vector<const PublishedRun*> all;
  for (const PublishedRun& run : runs) all.push_back(&run);
  ASSIGN_OR_RETURN(const std::vector<PipelineCounts> first, CountsOf({figures, start.calibration}, all));
  for (int part = 0; part < parts; ++part) {
    std::vector<const PublishedRun*> others;
    std::vector<PipelineCounts> first_of_others;
    for (size_t i = 0; i < all.size(); ++i) {
      if (static_cast<int>(i) % parts == part) continue;
      others.push_back(all[i]);
      first_of_others.push_back(first[i]);
    }
    ASSIGN_OR_RETURN(const Calibration calibration, Fit(figures, others, first_of_others, start));
    for (size_t i = part; i < all.size(); i += parts) {
      ASSIGN_OR_RETURN(const CrossValidation judged, Judge({figures, calibration}, {runs[i]}));
      result.of_seconds[i] = judged.of_seconds[0];
      result.of_bytes[i] = judged.of_bytes[0];
    }
  }
  ASSIGN_OR_RETURN(result.of_all, Fit(figures, all, first, start));
  return result;
}

absl::StatusOr<CrossValidation> Judge(const CalibratedDevice& device, const std::vector<PublishedRun>& runs) {
  CrossValidation result;
  result.of_seconds.resize(runs.size(), std::numeric_limits<double>::quiet_NaN());
  result.of_bytes = result.of_seconds;
  result.of_all = device.calibration;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].memory_gibibytes > 0) {
      result.of_bytes[i] =
          MemoryBytes(device.calibration, runs[i].run) / (runs[i].memory_gibibytes * kGibibyte) - 1;
    }
    if (runs[i].step_seconds > 0) {
      ASSIGN_OR_RETURN(const double seconds, RooflineStepSeconds(device, runs[i].run));
      result.of_seconds[i] = seconds / runs[i].step_seconds - 1;
    }
  }
  return result;
}

}  // namespace medley
