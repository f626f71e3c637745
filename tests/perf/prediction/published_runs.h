#pragma once
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/roofline/device_figures.h"
#include "coordinator/roofline/training_run.h"
#include "tests/perf/prediction/published_rows.h"

// What the rows of a table of publications say, as runs that can be predicted.
namespace medley {

using DeviceLibrary = std::map<std::string, DeviceFigures>;  // by kind

struct PublishedRun {
  int line = 0;
  std::string study;     // whose errors are reported together: "vtrain"
  std::string software;  // what coefficients are fitted for, with the kind: rows of one are fitted together
  std::string kind;
  TrainingRun run;
  double step_seconds = 0;      // 0: not published
  double memory_gibibytes = 0;  // of the device that needs most; 0: not published
};

// The study that a row belongs to; "other" if nobody has read that source yet.
std::string StudyOf(const PublishedRow& row);

// FailedPrecondition with the reason, without the row: the row lacks what a prediction needs, or asks for what nobody
// here predicts.
absl::StatusOr<PublishedRun> RunOf(const PublishedRow& row);

}  // namespace medley
