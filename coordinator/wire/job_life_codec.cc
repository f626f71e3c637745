#include "coordinator/wire/job_life_codec.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {

v1::JobState EncodeJobState(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return v1::JOB_STATE_QUEUED;
    case JobState::kProfiling:
      return v1::JOB_STATE_PROFILING;
    case JobState::kPlanning:
      return v1::JOB_STATE_PLANNING;
    case JobState::kLaunching:
      return v1::JOB_STATE_LAUNCHING;
    case JobState::kRunning:
      return v1::JOB_STATE_RUNNING;
    case JobState::kRecovering:
      return v1::JOB_STATE_RECOVERING;
    case JobState::kDone:
      return v1::JOB_STATE_DONE;
    case JobState::kFailed:
      return v1::JOB_STATE_FAILED;
    case JobState::kCancelled:
      return v1::JOB_STATE_CANCELLED;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

absl::StatusOr<JobState> DecodeJobState(v1::JobState state) {
  for (const JobState known : {JobState::kQueued, JobState::kProfiling, JobState::kPlanning,
                               JobState::kLaunching, JobState::kRunning, JobState::kRecovering,
                               JobState::kDone, JobState::kFailed, JobState::kCancelled}) {
    if (EncodeJobState(known) == state) return known;
  }
  return absl::InvalidArgumentError(absl::StrCat("state is ", static_cast<int>(state), "; allowed are ",
                                                 static_cast<int>(v1::JOB_STATE_QUEUED), " to ",
                                                 static_cast<int>(v1::JOB_STATE_CANCELLED)));
}

absl::StatusOr<JobLife> LifeOf(const v1::Job& job) {
  JobLife life;
  ASSIGN_OR_RETURN(life.state, DecodeJobState(job.state()));
  const auto bounded = [](uint32_t count) {
    return static_cast<int>(std::min<uint32_t>(count, std::numeric_limits<int>::max()));
  };
  life.restarts = bounded(job.restarts());
  life.restarts_without_progress = bounded(job.restarts_without_progress());
  if (job.spec().has_max_restarts()) life.max_restarts = bounded(job.spec().max_restarts());
  life.reason = job.state_reason();
  return life;
}

void SetLife(const JobLife& life, v1::Job& job) {
  job.set_state(EncodeJobState(life.state));
  job.set_restarts(static_cast<uint32_t>(life.restarts));
  job.set_restarts_without_progress(static_cast<uint32_t>(life.restarts_without_progress));
  job.set_state_reason(life.reason);
}

}  // namespace medley
