#include "coordinator/orchestrator/node_kernels.h"

#include "coordinator/orchestrator/ask_nodes.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::StatusOr<v1::ListKernelsResponse> ListKernels(const std::vector<v1::Node>& nodes,
                                                    const std::string& wanted, AgentClient& agents,
                                                    absl::Time deadline) {
  ASSIGN_OR_RETURN(const std::vector<v1::Node> asked, NodesToAsk(nodes, wanted));
  const std::vector<absl::StatusOr<v1::NodeKernels>> answers = AskNodes<v1::NodeKernels>(
      asked, [&](const std::string& address, AgentClient::Answered<v1::NodeKernels> answered) {
        agents.DescribeKernels(address, deadline, std::move(answered));
      });
  v1::ListKernelsResponse response;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (!wanted.empty()) RETURN_IF_ERROR(answers[i].status());
    v1::NodeKernels& kernels = *response.add_nodes();
    if (answers[i].ok()) {
      kernels = *answers[i];
    } else {
      kernels.set_failure(std::string(answers[i].status().message()));
    }
    kernels.set_node(asked[i].name());
  }
  return response;
}

}  // namespace medley
