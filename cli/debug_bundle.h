#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/coordinator_client.h"

namespace medley {

struct DebugBundle {
  int files = 0;
  std::vector<std::string> missing;  // what could not be had, and why, for people
};

// Writes all that the coordinator tells of itself and of `jobs` (empty: the newest ten) into `file`, a tar of JSON and YAML: versions,
// nodes, links, kernels, the audit, the cluster as `medley plan --cluster` takes it; of each job its spec to plan again with, its state,
// plan, steps, logs and newest trace. What cannot be had is listed in it. Nothing of it is secret to who may call these rpcs.
// InvalidArgument: the file is there already, or a job is not. Unavailable: the coordinator does not answer, or the file cannot be written.
absl::StatusOr<DebugBundle> WriteDebugBundle(CoordinatorClient& client, const std::vector<std::string>& jobs,
                                             const std::string& file);

}  // namespace medley
