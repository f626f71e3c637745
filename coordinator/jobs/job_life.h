#pragma once
#include <string>

#include "absl/status/statusor.h"

// The life of a job as a pure state machine: no clock, no thread, no message. Whoever runs jobs turns what
// happens into events and does what the new state asks for.
//
//   queued ─────┬─▶ profiling ─▶ planning ─▶ launching ─▶ running ─▶ done
//   recovering ─┘        │            │            │           │
//        ▲───────────────┴────────────┴────────────┴───────────┘ a loss; after max_restarts: failed
//   From every state that is not an end: failed (refused), cancelled.
namespace medley {

enum class JobState {
  kQueued,      // waits for devices
  kProfiling,   // devices and links are measured
  kPlanning,
  kLaunching,   // workers load the model and connect
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
  kLost,            // a device, node or peer was lost, or the coordinator restarted: recoverable
  kRefused,         // not recoverable: bad data, a loss that is not a number, no plan fits, ...
  kFinished,
  kCancelled,
  kWaitForDevices,  // the job cannot go on with the devices there are: back to waiting; no restart is counted
};

struct JobLife {
  JobState state = JobState::kQueued;
  int restarts = 0;      // losses survived so far; never above max_restarts
  int max_restarts = 3;  // 0: the first loss ends the job
  std::string reason;    // why it is in this state, for people
  friend bool operator==(const JobLife&, const JobLife&) = default;
};

// The life after `event`. `cause` becomes the reason; empty where there is nothing to say.
//
// - kLost counts a restart and makes the job recover; once restarts == max_restarts it fails instead, and the
//   reason has the cause and the count. A job that waits for devices has nothing to lose: it is returned
//   unchanged, so that a restarting coordinator may send kLost to every job that has not ended.
// - kWaitForDevices leads back to kRecovering if the job was ever restarted, otherwise to kQueued.
// - kCancelled of a job that has ended returns it unchanged.
//
// Pure; safe from any thread.
// FailedPrecondition: `life.state` does not allow `event`; names both. An ended job allows only kCancelled.
absl::StatusOr<JobLife> Next(const JobLife& life, JobEvent event, const std::string& cause);

// Done, failed or cancelled.
bool IsEnded(JobState state);

// Queued or recovering: to be handed to NextToStart (job_queue.h).
bool WaitsForDevices(JobState state);

// For people: "recovering", "devices granted".
std::string NameOf(JobState state);
std::string NameOf(JobEvent event);

}  // namespace medley
