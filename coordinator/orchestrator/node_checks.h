#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/orchestrator/agent_client.h"
#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// What is not as it should be on the node that `request` names, or on all of `nodes` that are alive: what their agents find, and how their
// clocks and versions compare with this process's. Blocks, until `deadline` at most. Errors: Coordinator.CheckNodes.
absl::StatusOr<v1::CheckNodesResponse> CheckNodes(const std::vector<v1::Node>& nodes,
                                                  const v1::CheckNodesRequest& request, AgentClient& agents,
                                                  absl::Time deadline);

// What the threads of a running job's workers are doing; FailedPrecondition: it does not run. Blocks, until `deadline` at most.
absl::StatusOr<v1::GetStacksResponse> StacksOf(const v1::Job& job, AgentClient& agents, absl::Time deadline);

}  // namespace medley
