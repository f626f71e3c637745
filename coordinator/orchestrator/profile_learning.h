#pragma once
#include <map>
#include <string>
#include <vector>

#include "coordinator/problem/planned_job.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// What the traced steps of one attempt teach about the profiles that it was planned with. Not thread-safe.
class ProfileLearner {
 public:
  // `shape`: ShapeKey of the job. Keeps nothing of `planned`.
  ProfileLearner(std::string job_id, const PlannedJob& planned, std::string shape);

  // Of a device kind: how many times as long its passes take as the profile says, all that the plan foresaw of devices that
  // compute beside each other apart.
  struct Lesson {
    std::string device_kind;
    double profile_measured_at_seconds = 0;  // of the profile that it is about
    v1::ProfileCorrection correction;
  };
  // Takes in a step. A lesson comes once the median of four steps or more is further from what was planned with than 2 %, and
  // than two thirds of the steps are from it; and again when it has moved from the last lesson by more than 1 %, and than that.
  // Pure but for what it remembers. `now_seconds`: unix.
  std::vector<Lesson> Add(const v1::Trace& trace, double now_seconds);

  const std::string& shape() const { return shape_; }

 private:
  struct Kind {
    double planned_factor = 1;  // that the prediction was made with
    double profile_measured_at_seconds = 0;
    std::vector<double> ratios;  // measured / predicted, of each step
    double told_factor = 0;      // the last lesson's; 0: none yet
  };
  const std::string job_id_, shape_;
  std::map<std::string, std::string> kind_of_device_;  // of real ones that are used
  std::map<std::string, Kind> kinds_;
};

// Puts what `trace` taught into the store, unless the profile has been measured anew since the job was planned. Returns what is
// to be said of it in the job's log.
std::vector<std::string> NoteMeasuredStep(Store& store, ProfileLearner& learner, const v1::Trace& trace);

}  // namespace medley
