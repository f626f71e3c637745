#include "coordinator/jobs/job_life.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace medley {
namespace {

JobLife Moved(const JobLife& life, JobState state, const std::string& reason) {
  JobLife next = life;
  next.state = state;
  next.reason = reason;
  return next;
}

JobLife AfterLoss(const JobLife& life, const std::string& cause) {
  if (WaitsForDevices(life.state)) return life;
  if (life.restarts_without_progress >= life.max_restarts) {
    return Moved(life, JobState::kFailed,
                 absl::StrCat(cause, "; given up after ", life.restarts_without_progress,
                              " restarts without a checkpoint between them (max_restarts is ",
                              life.max_restarts, "); `medley resume` goes on from the last checkpoint"));
  }
  JobLife next = Moved(life, JobState::kRecovering, cause);
  ++next.restarts;
  ++next.restarts_without_progress;
  return next;
}

JobLife BackToWaiting(const JobLife& life, const std::string& cause) {
  const bool has_run = life.restarts > 0 || life.state == JobState::kRunning;
  return Moved(life, has_run ? JobState::kRecovering : JobState::kQueued, cause);
}

absl::Status NotAllowed(JobState state, JobEvent event) {
  return absl::FailedPreconditionError(
      absl::StrCat("a job that is ", NameOf(state), " does not allow the event \"", NameOf(event), "\""));
}

}  // namespace

bool IsEnded(JobState state) {
  return state == JobState::kDone || state == JobState::kFailed || state == JobState::kCancelled;
}

bool WaitsForDevices(JobState state) { return state == JobState::kQueued || state == JobState::kRecovering; }

absl::StatusOr<JobLife> Next(const JobLife& life, JobEvent event, const std::string& cause) {
  const JobState state = life.state;
  if (IsEnded(state)) {
    if (event == JobEvent::kCancelled) return life;
    if (event != JobEvent::kResumed || state == JobState::kDone) return NotAllowed(state, event);
    JobLife next = Moved(life, JobState::kRecovering, cause);
    next.restarts_without_progress = 0;
    return next;
  }
  switch (event) {
    case JobEvent::kDevicesGranted:
      if (WaitsForDevices(state)) return Moved(life, JobState::kProfiling, cause);
      break;
    case JobEvent::kProfiled:
      if (state == JobState::kProfiling) return Moved(life, JobState::kPlanning, cause);
      break;
    case JobEvent::kPlanned:
      if (state == JobState::kPlanning) return Moved(life, JobState::kLaunching, cause);
      break;
    case JobEvent::kLaunched:
      if (state == JobState::kLaunching) return Moved(life, JobState::kRunning, cause);
      break;
    case JobEvent::kFinished:
      if (state == JobState::kRunning) return Moved(life, JobState::kDone, cause);
      break;
    case JobEvent::kWaitForDevices:
      // Not from launching on: what fails there has cost work, and must be counted, or it never ends.
      if (state == JobState::kLaunching || state == JobState::kRunning) break;
      return BackToWaiting(life, cause);
    case JobEvent::kInterrupted:
      return WaitsForDevices(state) ? life : BackToWaiting(life, cause);
    case JobEvent::kResumed:
      return life;
    case JobEvent::kLost:
      return AfterLoss(life, cause);
    case JobEvent::kRefused:
      return Moved(life, JobState::kFailed, cause);
    case JobEvent::kCancelled:
      return Moved(life, JobState::kCancelled, cause);
  }
  return NotAllowed(state, event);
}

absl::Duration BackOff(int restarts_without_progress, absl::Duration base) {
  absl::Duration pause = restarts_without_progress < 2 ? absl::ZeroDuration() : base;
  for (int i = 2; i < restarts_without_progress && pause < absl::Hours(1); ++i) pause *= 3;
  return std::min(pause, absl::Hours(1));
}

std::string NameOf(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "queued";
    case JobState::kProfiling:
      return "profiling";
    case JobState::kPlanning:
      return "planning";
    case JobState::kLaunching:
      return "launching";
    case JobState::kRunning:
      return "running";
    case JobState::kRecovering:
      return "recovering";
    case JobState::kDone:
      return "done";
    case JobState::kFailed:
      return "failed";
    case JobState::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

std::string NameOf(JobEvent event) {
  switch (event) {
    case JobEvent::kDevicesGranted:
      return "devices granted";
    case JobEvent::kProfiled:
      return "profiled";
    case JobEvent::kPlanned:
      return "planned";
    case JobEvent::kLaunched:
      return "launched";
    case JobEvent::kLost:
      return "lost";
    case JobEvent::kRefused:
      return "refused";
    case JobEvent::kFinished:
      return "finished";
    case JobEvent::kCancelled:
      return "cancelled";
    case JobEvent::kWaitForDevices:
      return "wait for devices";
    case JobEvent::kInterrupted:
      return "interrupted";
    case JobEvent::kResumed:
      return "resumed";
  }
  return "unknown";
}

}  // namespace medley
