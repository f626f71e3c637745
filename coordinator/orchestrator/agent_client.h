#pragma once
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/medley/v1/agent.pb.h"

namespace medley {

// A task that an agent runs. Cancel from any thread; Join from one. The destructor cancels and joins.
class RunningTask {
 public:
  virtual ~RunningTask() = default;
  // The agent stops the task's worker. Returns at once.
  virtual void Cancel() = 0;
  // Blocks until the task has ended and `on_event` will not be called any more. OK: its last event was `finished`, whatever
  // that says. Unavailable: the agent is gone. Cancelled.
  virtual absl::Status Join() = 0;
};

// The agents, as the orchestrator sees them (proto/medley/v1/agent.proto). Thread-safe.
class AgentClient {
 public:
  virtual ~AgentClient() = default;

  // Blocks. Unavailable: the agent cannot be reached, or the worker died; others as Agent.Prepare.
  virtual absl::StatusOr<v1::PrepareResponse> Prepare(const std::string& agent_address, const v1::PrepareRequest& request,
                                                      absl::Time deadline) = 0;
  // `on_event` is called from one thread of the task's own.
  virtual std::unique_ptr<RunningTask> Start(const std::string& agent_address, const v1::StartRequest& request,
                                             std::function<void(const v1::WorkerEvent&)> on_event) = 0;
  // Blocks. Errors as for Prepare, and as Agent.DescribeKernels.
  virtual absl::StatusOr<v1::NodeKernels> DescribeKernels(const std::string& agent_address, absl::Time deadline) = 0;
  // Best effort, within a second.
  virtual void Stop(const std::string& agent_address, const std::string& task_id) = 0;
};

}  // namespace medley
