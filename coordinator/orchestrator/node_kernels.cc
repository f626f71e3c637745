#include "coordinator/orchestrator/node_kernels.h"

#include "coordinator/orchestrator/ask_nodes.h"

namespace medley {

absl::StatusOr<v1::ListKernelsResponse> ListKernels(const std::vector<v1::Node>& nodes,
                                                    const std::string& wanted, AgentClient& agents,
                                                    absl::Time deadline) {
  return AskNodes<v1::ListKernelsResponse, v1::NodeKernels>(
      nodes, wanted, [&](const std::string& address, AgentClient::Answered<v1::NodeKernels> answered) {
        agents.DescribeKernels(address, deadline, std::move(answered));
      });
}

}  // namespace medley
