#pragma once
#include <map>
#include <optional>
#include <set>
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
  ProfileLearner(std::string job_id, const PlannedJob& planned, const std::string& shape);

  // How many times as long what a profile has times of takes as was measured: on devices of a kind, or, where several of a
  // host like which some were measured are in use together, on devices of a kind beside the others of such hosts, of which
  // kPasses and kUpdates, with norms, are known. Alone and beside others are told apart, so that neither is blamed for the
  // other. And how many times as long passes of one device take as those of the others of its kind that hold the same blocks, of which there
  // are three or more by themselves: one that is a tenth off the middle of them, or that was planned to be, teaches nothing about the kind's passes.
  struct Lesson {
    TimeClass times = TimeClass::kPasses;
    std::string device_kind;
    std::string host;     // PlannedSlowdown::host; empty: it is about the kind's profile
    std::string device;   // that it is about, beside the others of its kind; empty: about all of them
    bool is_news = true;  // of a device: otherwise it is as it was known to be, and seen again
    std::string shape;    // of the profile or slow-down that it is about, as the next
    double measured_at_seconds = 0;
    ProfileCorrection correction;
  };
  // Takes in a step. A lesson comes once the median of four steps or more is further from what was planned
  // with than 2 %, and than two thirds of the steps are from it; and again when it has moved from the last
  // lesson by more than 1 %, and than that. What was planned with counts like four steps of its own.
  // Of one device among its kind the factor is rounded to twentieths, and 1 for less than a tenth; it is told after eight steps, when it is another by 7 % and
  // by more than the spread, and every few hours while it stays, for it is believed for a day. Recomputations without a factor of their own, which plans to come would make with that of passes, are told once
  // passes are, however near they are to what was planned with.
  // Pure but for what it remembers. `now_seconds`: unix.
  std::vector<Lesson> Add(const v1::Trace& trace, double now_seconds);

 private:
  struct Subject {
    Lesson lesson;                  // without its correction
    double planned_factor = 1;      // correction that the prediction was made with
    double least_factor = 0;        // nothing below it is believed
    std::vector<double> ratios;     // measured / predicted, of each step
    double told_factor = 0;         // the last lesson's; 0: none yet
    std::optional<size_t> goes_by;  // another subject whose factor is this one's until it has its own
  };
  // Of one device beside the others of its kind.
  struct Pace {
    Lesson lesson;       // of the kind's passes, without a correction
    std::string blocks;  // that it holds: others are no measure of it
    // That the prediction was made with; and what was told last, when.
    double planned_factor = 1, told_factor = 1, told_at_seconds = 0;
    std::vector<double> ratios;  // of each step: measured / predicted, over the middle one of its kind
  };
  using SubjectsByTimes = std::map<TimeClass, size_t>;
  // Those of devices that are slowed down by others of their host.
  SubjectsByTimes AddSlowdown(const PlannedSlowdown& slowdown, const std::string& shape);
  std::optional<Lesson> LessonOf(Subject& subject) const;
  std::optional<Lesson> LessonOf(const std::string& device, double now_seconds, Pace& pace) const;
  // Takes the step's passes in; the devices that are apart from their kind in it, or were planned to be.
  std::set<std::string> AddPaces(const v1::Trace& trace);

  const std::string job_id_;
  std::vector<Subject> subjects_;
  // Of real ones that are used, each a unit by itself.
  std::map<std::string, SubjectsByTimes> subjects_of_device_;
  std::map<std::string, Pace> paces_;  // of those that no other of their host slows down
};

// Puts what `trace` taught into the store, unless it was measured anew since the job was planned. Returns
// what is to be said of it in the job's log.
std::vector<std::string> NoteMeasuredStep(Store& store, ProfileLearner& learner, const v1::Trace& trace);

}  // namespace medley
