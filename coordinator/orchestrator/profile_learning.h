#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/problem/planned_job.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/ir/cluster/device_profile.h"

namespace medley {

// What the traced steps of one attempt teach about the profiles that it was planned with. Not thread-safe.
class ProfileLearner {
 public:
  // `shape`: ShapeKey of the job. Keeps nothing of `planned`.
  ProfileLearner(std::string job_id, const PlannedJob& planned, std::string shape);

  // How many times as long passes take as was measured: those of a device kind, or, where devices that were
  // measured together are in use together, of one device beside the others of its host. Alone and beside
  // others are told apart, so that neither is blamed for the other.
  struct Lesson {
    std::string device_kind;         // empty where `device` says it
    std::string host, device;        // of a slow-down
    double measured_at_seconds = 0;  // of the profile or slow-down that it is about
    ProfileCorrection correction;
  };
  // Takes in a step. A lesson comes once the median of four steps or more is further from what was planned
  // with than 2 %, and than two thirds of the steps are from it; and again when it has moved from the last
  // lesson by more than 1 %, and than that. What was planned with counts like four steps of its own.
  // Pure but for what it remembers. `now_seconds`: unix.
  std::vector<Lesson> Add(const v1::Trace& trace, double now_seconds);

  const std::string& shape() const { return shape_; }

 private:
  struct Subject {
    Lesson lesson;               // without its correction
    double planned_factor = 1;   // correction that the prediction was made with
    double least_factor = 0;     // nothing below it is believed
    std::vector<double> ratios;  // measured / predicted, of each step
    double told_factor = 0;      // the last lesson's; 0: none yet
  };
  std::optional<Lesson> LessonOf(Subject& subject) const;

  const std::string job_id_, shape_;
  std::vector<Subject> subjects_;
  std::map<std::string, size_t> subject_of_device_;  // of real ones that are used
};

// Puts what `trace` taught into the store, unless it was measured anew since the job was planned. Returns
// what is to be said of it in the job's log.
std::vector<std::string> NoteMeasuredStep(Store& store, ProfileLearner& learner, const v1::Trace& trace);

}  // namespace medley
