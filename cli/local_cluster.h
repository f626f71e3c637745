#pragma once
#include <string>

#include "absl/status/status.h"
#include "proto/medley/v1/config.pb.h"

namespace medley {

struct LocalClusterOptions {
  v1::LocalClusterConfig config;
  std::string directory;  // for configurations, logs and state; made if it is missing
};

// Starts medley-coordinator and medley-agents, which lie beside this program, says where they are, and runs
// them until SIGINT or SIGTERM (OK), then stops them: agents first. The signals must be blocked in all
// threads (BlockInterrupts). Errors: Unavailable, one did not start, did not register within a minute, or
// died; names it with its last words; the others are stopped. NotFound: a program is missing.
// InvalidArgument: the configuration.
absl::Status RunLocalCluster(const LocalClusterOptions& options);

}  // namespace medley
