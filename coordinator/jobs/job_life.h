#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

// The life of a job as a pure state machine: no clock, no thread, no message. Whoever runs jobs turns what
// happens into events and does what the new state asks for.
//
//   queued ─────┬─▶ profiling ─▶ planning ─▶ launching ─▶ running ─▶ done
//   recovering ─┘        │            │            │           │
//        ▲───────────────┴────────────┴────────────┴───────────┘ a loss; after max_restarts: failed
//   From every state that is not an end: failed (refused), cancelled.
//   From failed and cancelled: recovering (resumed).
namespace medley {

enum class JobState {
  kQueued,     // waits for devices
  kProfiling,  // devices and links are measured
  kPlanning,
  kLaunching,  // workers load the model and connect
  kRunning,
  kRecovering,  // waits for devices, as kQueued does, to go on from the last checkpoint
  kDone,
  kFailed,
  kCancelled,
};

enum class JobEvent {
  kDevicesGranted,
  kProfiled,
  kPlanned,
  kLaunched,
  kLost,  // a device, node or peer was lost: recoverable
  // Ended on purpose, to be planned anew (a node leaves, a better plan, the coordinator): no restart is
  // counted.
  kInterrupted,
  kRefused,  // not recoverable: bad data, a loss that is not a number, no plan fits, ...
  kFinished,
  kCancelled,
  kWaitForDevices,  // the job cannot go on with the devices there are: back to waiting; no restart is counted
  kResumed,         // by the user, after it had failed or was cancelled
};

struct JobLife {
  JobState state = JobState::kQueued;
  int restarts = 0;      // losses survived so far
  int max_restarts = 3;  // 0: the first loss ends the job
  std::string reason;    // why it is in this state, for people
  // The restarts since the last checkpoint; never above max_restarts.
  int restarts_without_progress = 0;
  friend bool operator==(const JobLife&, const JobLife&) = default;
};

// The life after `event`. `cause` becomes the reason; empty where there is nothing to say.
//
// - kLost counts a restart and makes the job recover; once restarts_without_progress == max_restarts it fails
//   instead, and the reason has the cause and the count. A job that waits for devices has nothing to lose: it
//   is returned unchanged.
// - kInterrupted leads where kLost does, but is not counted; a job that waits is returned unchanged, so that
//   a restarting coordinator may send it to every job that has not ended.
// - kWaitForDevices, and kInterrupted before the job ran, lead back to kRecovering if it was ever restarted,
//   otherwise to kQueued.
// - kCancelled of a job that has ended returns it unchanged.
// - kResumed makes a failed or cancelled job recover, with its restarts counted from 0 again; a job that has
//   not ended is returned unchanged.
//
// Pure; safe from any thread.
// FailedPrecondition: `life.state` does not allow `event`; names both. An ended job allows only kCancelled
// and, unless it is done, kResumed.
absl::StatusOr<JobLife> Next(const JobLife& life, JobEvent event, const std::string& cause);

// How long a job waits before it is started again, after so many restarts without progress: the first one is
// not waited for, then `base`, and three times as long each time, an hour at most.
absl::Duration BackOff(int restarts_without_progress, absl::Duration base);

// Done, failed or cancelled.
bool IsEnded(JobState state);

// Queued or recovering: to be handed to NextToStart (job_queue.h).
bool WaitsForDevices(JobState state);

// For people: "recovering", "devices granted".
std::string NameOf(JobState state);
std::string NameOf(JobEvent event);

}  // namespace medley
