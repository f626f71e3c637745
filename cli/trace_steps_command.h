#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cli/connection.h"

namespace medley {

// `medley trace JOB --steps N`: writes the next steps of a running job into `file` ("-": standard output), as they were traced. When it ends
// before the last one, by an interrupt or because the job or its attempt does, what there is until then is written, and it says so.
// Cancelled: it was interrupted. Others: the coordinator's.
absl::Status RunTraceSteps(const Connection& connection, const std::string& job_id, uint32_t steps,
                           const std::string& file);

}  // namespace medley
