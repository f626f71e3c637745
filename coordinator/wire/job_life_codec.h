#pragma once
#include "absl/status/statusor.h"
#include "coordinator/jobs/job_life.h"
#include "proto/medley/v1/job.pb.h"

// Between a job's life and the message that users and the store see.
namespace medley {

v1::JobState EncodeJobState(JobState state);

// InvalidArgument: unspecified, or a value this version does not know.
absl::StatusOr<JobState> DecodeJobState(v1::JobState state);

// state, restarts, state_reason, and spec.max_restarts (unset: 3).
// InvalidArgument: as DecodeJobState.
absl::StatusOr<JobLife> LifeOf(const v1::Job& job);

// Writes state, restarts and state_reason of `life` into `job`; leaves the rest.
void SetLife(const JobLife& life, v1::Job& job);

}  // namespace medley
