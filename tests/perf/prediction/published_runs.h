#pragma once
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/roofline/training_run.h"
#include "tests/perf/prediction/published_rows.h"

// What the rows of a table of publications say, as runs that can be predicted.
namespace medley {

struct PublishedRun {
  int record = 0;
  std::string study;     // whose errors are reported together: "vtrain"
  std::string software;  // what coefficients are fitted for, with the kind: rows of one are fitted together
  std::string kind;
  // An earlier version of that software, from whose coefficients on the same kind a fit starts; empty: from the defaults.
  std::string predecessor;
  TrainingRun run;
  double step_seconds = 0;      // 0: not published
  double memory_gibibytes = 0;  // of the device that needs most; 0: not published
};

// The study that a row belongs to; "other" if nobody has read that source yet.
std::string StudyOf(const PublishedRow& row);

// FailedPrecondition with the reason, without the row: the row lacks what a prediction needs, or asks for what nobody
// here predicts.
absl::StatusOr<PublishedRun> RunOf(const PublishedRow& row);

// Runs whose ranks hold the same, but for how many replicas there are, need the same memory. Where at least three of them
// agree within 2 % of their median and another is 10 % off, that one's memory is taken to be of something else: it is set
// to 0 and counted in `excluded` by its reason.
void LeaveOutContradictedMemory(std::vector<PublishedRun>& runs, std::map<std::string, int>& excluded);

}  // namespace medley
