#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/orchestrator/agent_client.h"
#include "proto/medley/v1/cluster.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// Which of `nodes` are asked: `wanted`, or, if that is empty, all that are alive. NotFound: no such node; names those there are.
// Unavailable: it is lost.
inline absl::StatusOr<std::vector<v1::Node>> NodesToAsk(std::vector<v1::Node> nodes,
                                                        const std::string& wanted) {
  if (wanted.empty()) {
    std::erase_if(nodes, [](const v1::Node& node) { return !node.alive(); });
    return nodes;
  }
  std::vector<std::string> names;
  for (const v1::Node& node : nodes) {
    names.push_back(node.name());
    if (node.name() != wanted) continue;
    if (node.alive()) return std::vector<v1::Node>{node};
    return absl::UnavailableError(absl::StrCat("node ", node.name(), " is lost: ", node.status()));
  }
  return absl::NotFoundError(
      absl::StrCat("no node is named ", wanted, "; ",
                   names.empty() ? "there are none" : "there are: " + absl::StrJoin(names, ", ")));
}

// Calls `ask` for 0 .. `count` - 1, which is to call back once each, and blocks until all have; the answers, in that order.
template <typename Response>
std::vector<absl::StatusOr<Response>> AskAtOnce(
    size_t count, const std::function<void(size_t, AgentClient::Answered<Response>)>& ask) {
  Mutex mutex;
  ConditionVariable changed;
  size_t answered = 0;
  std::vector<absl::StatusOr<Response>> answers(count);
  for (size_t i = 0; i < count; ++i) {
    ask(i, [&, i](absl::StatusOr<Response> answer) {
      MutexLock lock(mutex);
      answers[i] = std::move(answer);
      ++answered;
      changed.NotifyAll();
    });
  }
  MutexLock lock(mutex);
  changed.WaitUntil(mutex, absl::InfiniteFuture(), [&] { return answered == count; });
  return answers;
}

// Asks the agents of `nodes` at once. Whatever an agent's failure is called on the wire, to the user it did not answer: Unavailable.
template <typename Response>
std::vector<absl::StatusOr<Response>> AskNodes(
    const std::vector<v1::Node>& nodes,
    const std::function<void(const std::string& agent_address, AgentClient::Answered<Response>)>& ask) {
  std::vector<absl::StatusOr<Response>> answers =
      AskAtOnce<Response>(nodes.size(), [&](size_t i, AgentClient::Answered<Response> answered) {
        ask(nodes[i].agent_address(), std::move(answered));
      });
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!answers[i].ok())
      answers[i] = absl::UnavailableError(absl::StrCat("the agent of node ", nodes[i].name(), " at ",
                                                       nodes[i].agent_address(),
                                                       " does not answer: ", answers[i].status().message()));
  }
  return answers;
}

}  // namespace medley
