#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/orchestrator/agent_client.h"
#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// Asks the agent of the node `wanted` of `nodes` which kernels its devices run, or, if `wanted` is empty, the
// agents of all that are alive, at once; there a node that does not answer says why in its place. Blocks,
// until `deadline` at most. NotFound: no such node; names those there are. Unavailable: `wanted` is lost, or
// its agent does not answer.
absl::StatusOr<v1::ListKernelsResponse> ListKernels(const std::vector<v1::Node>& nodes,
                                                    const std::string& wanted, AgentClient& agents,
                                                    absl::Time deadline);

}  // namespace medley
