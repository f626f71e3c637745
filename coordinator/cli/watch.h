#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cli/coordinator_client.h"
#include "coordinator/cli/output.h"
#include "proto/medley/v1/job.pb.h"

namespace medley {

// Shows a job's progress on standard output until it has ended; the job as it was last seen. On a terminal a
// display that is redrawn, otherwise lines; JSON: every update on a line. A coordinator that goes away is
// waited for, a minute at most.
//
// SIGINT and SIGTERM must be blocked in all threads (BlockInterrupts). They end the watching, not the job.
// Errors: Cancelled, it was interrupted, the message says that the job goes on; those of the client.
absl::StatusOr<v1::Job> WatchJob(CoordinatorClient& client, const std::string& job_id, Output output);

// For the calling thread and those that it starts from now on.
void BlockInterrupts();

}  // namespace medley
