#include "coordinator/orchestrator/node_kernels.h"

#include <future>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::StatusOr<v1::NodeKernels> Ask(const v1::Node& node, AgentClient& agents, absl::Time deadline) {
  if (!node.alive())
    return absl::UnavailableError(absl::StrCat("node ", node.name(), " is lost: ", node.status()));
  absl::StatusOr<v1::NodeKernels> answer = agents.DescribeKernels(node.agent_address(), deadline);
  if (answer.ok()) {
    answer->set_node(node.name());
    return answer;
  }
  // Whatever it is called on the wire, to the user an agent did not answer.
  return absl::UnavailableError(absl::StrCat("the agent of node ", node.name(), " at ", node.agent_address(),
                                             " does not answer: ", answer.status().message()));
}

absl::StatusOr<v1::ListKernelsResponse> AskOne(const v1::Node& node, AgentClient& agents,
                                               absl::Time deadline) {
  v1::ListKernelsResponse response;
  ASSIGN_OR_RETURN(*response.add_nodes(), Ask(node, agents, deadline));
  return response;
}

v1::ListKernelsResponse AskAll(const std::vector<v1::Node>& nodes, AgentClient& agents, absl::Time deadline) {
  std::vector<std::future<absl::StatusOr<v1::NodeKernels>>> answers;
  std::vector<std::string> names;
  for (const v1::Node& node : nodes) {
    if (!node.alive()) continue;
    names.push_back(node.name());
    answers.push_back(
        std::async(std::launch::async, [&agents, &node, deadline] { return Ask(node, agents, deadline); }));
  }
  v1::ListKernelsResponse response;
  for (size_t i = 0; i < answers.size(); ++i) {
    absl::StatusOr<v1::NodeKernels> answer = answers[i].get();
    v1::NodeKernels& kernels = *response.add_nodes();
    if (answer.ok()) {
      kernels = *std::move(answer);
    } else {
      kernels.set_node(names[i]);
      kernels.set_failure(std::string(answer.status().message()));
    }
  }
  return response;
}

}  // namespace

absl::StatusOr<v1::ListKernelsResponse> ListKernels(const std::vector<v1::Node>& nodes,
                                                    const std::string& wanted, AgentClient& agents,
                                                    absl::Time deadline) {
  if (wanted.empty()) return AskAll(nodes, agents, deadline);
  std::vector<std::string> names;
  for (const v1::Node& node : nodes) {
    if (node.name() == wanted) return AskOne(node, agents, deadline);
    names.push_back(node.name());
  }
  return absl::NotFoundError(
      absl::StrCat("no node is named ", wanted, "; ",
                   names.empty() ? "there are none" : "there are: " + absl::StrJoin(names, ", ")));
}

}  // namespace medley
