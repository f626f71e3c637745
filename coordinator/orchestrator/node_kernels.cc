#include "coordinator/orchestrator/node_kernels.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// Asks all of `nodes` at once; parallel to them.
std::vector<absl::StatusOr<v1::NodeKernels>> Ask(const std::vector<v1::Node>& nodes, AgentClient& agents,
                                                 absl::Time deadline) {
  Mutex mutex;
  ConditionVariable changed;
  size_t answered = 0;
  std::vector<absl::StatusOr<v1::NodeKernels>> answers(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    agents.DescribeKernels(nodes[i].agent_address(), deadline,
                           [&, i](absl::StatusOr<v1::NodeKernels> answer) {
                             MutexLock lock(mutex);
                             answers[i] = std::move(answer);
                             ++answered;
                             changed.NotifyAll();
                           });
  }
  MutexLock lock(mutex);
  changed.WaitUntil(mutex, absl::InfiniteFuture(), [&] { return answered == nodes.size(); });
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (answers[i].ok()) {
      answers[i]->set_node(nodes[i].name());
      continue;
    }
    // Whatever it is called on the wire, to the user an agent did not answer.
    answers[i] = absl::UnavailableError(absl::StrCat("the agent of node ", nodes[i].name(), " at ",
                                                     nodes[i].agent_address(),
                                                     " does not answer: ", answers[i].status().message()));
  }
  return answers;
}

absl::StatusOr<v1::ListKernelsResponse> AskOne(const v1::Node& node, AgentClient& agents,
                                               absl::Time deadline) {
  if (!node.alive())
    return absl::UnavailableError(absl::StrCat("node ", node.name(), " is lost: ", node.status()));
  v1::ListKernelsResponse response;
  ASSIGN_OR_RETURN(*response.add_nodes(), Ask({node}, agents, deadline)[0]);
  return response;
}

v1::ListKernelsResponse AskAll(std::vector<v1::Node> nodes, AgentClient& agents, absl::Time deadline) {
  std::erase_if(nodes, [](const v1::Node& node) { return !node.alive(); });
  const std::vector<absl::StatusOr<v1::NodeKernels>> answers = Ask(nodes, agents, deadline);
  v1::ListKernelsResponse response;
  for (size_t i = 0; i < nodes.size(); ++i) {
    v1::NodeKernels& kernels = *response.add_nodes();
    if (answers[i].ok()) {
      kernels = *answers[i];
    } else {
      kernels.set_node(nodes[i].name());
      kernels.set_failure(std::string(answers[i].status().message()));
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
