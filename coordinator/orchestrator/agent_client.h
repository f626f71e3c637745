#pragma once
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/medley/v1/agent.pb.h"

namespace medley {

// A task that an agent runs, as it is listened to. The task does not depend on it: AgentClient::Stop ends
// one. Cancel from any thread; Join from one. The destructor cancels and joins.
class RunningTask {
 public:
  virtual ~RunningTask() = default;
  // Listens no longer. Returns at once.
  virtual void Cancel() = 0;
  // Blocks until the task has ended, or nobody listens any more, and `on_event` will not be called any more.
  // OK: its last event was `finished`, whatever that says. Unavailable: the agent is gone. NotFound: the
  // agent does not have the task (any more). Cancelled: by Cancel, or the task was stopped.
  virtual absl::Status Join() = 0;
};

// The agents, as the orchestrator sees them (proto/medley/v1/agent.proto). Thread-safe.
class AgentClient {
 public:
  virtual ~AgentClient() = default;

  // Blocks until the agent answers, however long that takes; Stop makes it answer. Unavailable: the agent
  // cannot be reached; others as Agent.Prepare.
  virtual absl::StatusOr<v1::PrepareResponse> Prepare(const std::string& agent_address,
                                                      const v1::PrepareRequest& request) = 0;
  // `on_event` is called from one thread of the task's own. An agent that cannot be reached is tried again
  // for `patience`, and asked for what was not heard yet.
  virtual std::unique_ptr<RunningTask> Start(const std::string& agent_address,
                                             const v1::StartRequest& request, absl::Duration patience,
                                             std::function<void(const v1::WorkerEvent&)> on_event) = 0;
  // Blocks. Errors as for Prepare, and as Agent.DescribeKernels.
  virtual absl::StatusOr<v1::NodeKernels> DescribeKernels(const std::string& agent_address,
                                                          absl::Time deadline) = 0;
  // Best effort, within a second. `request`: as Agent.Stop.
  virtual void Stop(const std::string& agent_address, const v1::StopRequest& request) = 0;
};

}  // namespace medley
