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
#include "runtime/base/status_macros.h"

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

// Asks the agent of the node `wanted`, or those of all that are alive, at once, and puts their answers into a Response, whose `nodes` are
// Answers with fields `node` and `failure`: without `wanted`, one that does not answer says so there. Errors of NodesToAsk; Unavailable:
// `wanted` does not answer, whatever that is called on the wire.
template <typename Response, typename Answer>
absl::StatusOr<Response> AskNodes(
    const std::vector<v1::Node>& nodes, const std::string& wanted,
    const std::function<void(const std::string& agent_address, AgentClient::Answered<Answer>)>& ask) {
  ASSIGN_OR_RETURN(const std::vector<v1::Node> asked, NodesToAsk(nodes, wanted));
  std::vector<absl::StatusOr<Answer>> answers =
      AskAtOnce<Answer>(asked.size(), [&](size_t i, AgentClient::Answered<Answer> answered) {
        ask(asked[i].agent_address(), std::move(answered));
      });
  Response response;
  for (size_t i = 0; i < asked.size(); ++i) {
    Answer& node = *response.add_nodes();
    if (answers[i].ok()) {
      node = *std::move(answers[i]);
    } else {
      node.set_failure(absl::StrCat("the agent of node ", asked[i].name(), " at ", asked[i].agent_address(),
                                    " does not answer: ", answers[i].status().message()));
      if (!wanted.empty()) return absl::UnavailableError(node.failure());
    }
    node.set_node(asked[i].name());
  }
  return response;
}

}  // namespace medley
