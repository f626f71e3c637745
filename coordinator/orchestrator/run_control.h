#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/jobs/job_life.h"
#include "coordinator/orchestrator/attempt_run.h"
#include "runtime/base/mutex.h"

namespace medley {

// How a run of a job ended, and what is to become of the job.
struct RunOutcome {
  // kFinished, kLost, kInterrupted, kRefused, kCancelled or kWaitForDevices (nothing of it, or no plan,
  // fits).
  JobEvent event = JobEvent::kFinished;
  std::string cause;
  AttemptEnd end;     // of what failed
  bool left = false;  // the job goes on without this coordinator: nothing becomes of it
};

// What is under way in a run of a job, and how other threads end it. Thread-safe; what is protected is for the run itself.
class RunControl {
 public:
  // Ends what is under way, planning too. kLost: something it needs is gone; kCancelled: the user's wish; kInterrupted:
  // planned anew.
  void Abort(JobEvent event, const std::string& cause);

  // Ends the training after its current step and a checkpoint, with `event` (kCancelled, kInterrupted) and
  // `cause`. Nothing happens before it trains.
  void FinishEarly(JobEvent event, const std::string& cause);
  // Where FinishEarly was called: asks once more, if nobody has taken it yet. To be called again and again.
  void RepeatWish();

  // The coordinator ends: training goes on by itself; anything else is aborted with kInterrupted.
  void Leave();

  // Abort was called with kCancelled, first.
  bool cancelled();

  // The ids of the tasks that are under way.
  std::vector<std::string> TaskIds();
  // When it was last heard of its training; absl::InfinitePast() if it does not train.
  absl::Time LastHeard();

 protected:
  RunControl() = default;
  ~RunControl() = default;

  // `run` is under way while `work` is done.
  AttemptEnd WhileUnderWay(AttemptRun& run, bool trains, const std::function<AttemptEnd()>& work);
  // Something was heard of the training.
  void Heard();
  bool Trains();
  // Leave was called, and nothing has ended the run.
  bool Leaving();
  // OK while nothing has ended what is under way.
  absl::Status StillWanted();
  // Set when it is not; ends planning.
  std::atomic<bool>& stop_planning() { return stop_planning_; }
  RunOutcome OutcomeOf(const AttemptEnd& end);

 private:
  absl::Status StillWantedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<bool> stop_planning_ = false;
  Mutex mutex_;
  std::set<AttemptRun*> current_ ABSL_GUARDED_BY(mutex_);  // several while links are measured
  AttemptRun* training_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<RunOutcome> aborted_ ABSL_GUARDED_BY(mutex_);
  std::optional<RunOutcome> wish_ ABSL_GUARDED_BY(mutex_);  // what becomes of it when it has finished early
  absl::Time heard_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace medley
