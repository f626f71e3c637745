#pragma once
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/medley/v1/agent.pb.h"

namespace medley {

// A PrepareRequest in two parts, so that what thousands of tasks have in common is encoded and kept once. Messages of
// protobuf that are encoded one after another are one message: what agents get is a PrepareRequest like any other.
struct PrepareParts {
  std::shared_ptr<const std::string> shared;  // a PrepareRequest's encoding; null: nothing is shared
  v1::PrepareRequest own;                     // goes before what is shared
};

// A task that an agent runs, as it is listened to. The task does not depend on it: AgentClient::Stop ends one. The
// destructor cancels, and returns when TaskListener::ended has returned; not to be called from there.
class RunningTask {
 public:
  virtual ~RunningTask() = default;
  // Listens no longer. Returns at once. From any thread.
  virtual void Cancel() = 0;
};

// What is heard of a task. Called by one thread at a time, which waits for it and may not be the same each time.
struct TaskListener {
  std::function<void(const v1::WorkerEvent&)> event;
  // The last call, once: the task has ended, or nobody listens any more.
  // OK: its last event was `finished`, whatever that says. Unavailable: the agent is gone. NotFound: the
  // agent does not have the task (any more). Cancelled: by Cancel, or the task was stopped.
  std::function<void(const absl::Status&)> ended;
};

// The agents, as the orchestrator sees them (proto/medley/v1/agent.proto). Thread-safe. Nothing here blocks, and
// however many tasks and calls there are, few threads serve them: `answered` and listeners are called by some thread,
// maybe before the call returns, and should be brief.
// Calls of a thread that serves a request say so to the agent (runtime/log/request_id.h).
class AgentClient {
 public:
  virtual ~AgentClient() = default;

  template <typename Response>
  using Answered = std::function<void(absl::StatusOr<Response>)>;

  // Connects to an agent that may be asked soon, or sees that it is still connected, so that a plan goes to thousands at
  // once without thousands of handshakes. To be called while the agent is there, as often as one likes: one that cannot be reached is
  // tried again after pauses that grow. Returns at once.
  virtual void KeepConnected(const std::string& agent_address) = 0;
  // The agent is not there any more. What is under way with it goes on.
  virtual void Disconnect(const std::string& agent_address) = 0;
  // Takes as long as the agent does; Stop makes it answer. Unavailable: the agent cannot be reached; others as
  // Agent.Prepare.
  virtual void Prepare(const std::string& agent_address, const PrepareParts& request,
                       Answered<v1::PrepareResponse> answered) = 0;
  // An agent that cannot be reached is tried again for `patience` since the first try that failed, and asked for what was not heard yet.
  // A task that is to begin does so even if nobody listens any more before its agent has heard of it, unless that takes the agent
  // seconds, or it cannot be reached just then.
  virtual std::unique_ptr<RunningTask> Start(const std::string& agent_address,
                                             const v1::StartRequest& request, absl::Duration patience,
                                             TaskListener listener) = 0;
  // Errors as for Prepare, and as Agent.DescribeKernels.
  virtual void DescribeKernels(const std::string& agent_address, absl::Time deadline,
                               Answered<v1::NodeKernels> answered) = 0;
  // Errors as for Prepare, and as of the agent's rpc of that name.
  virtual void DescribeStacks(const std::string& agent_address, const v1::DescribeStacksRequest& request,
                              absl::Time deadline, Answered<v1::DescribeStacksResponse> answered) = 0;
  virtual void TraceTask(const std::string& agent_address, const v1::TraceTaskRequest& request,
                         absl::Time deadline, Answered<v1::TraceTaskResponse> answered) = 0;
  virtual void CheckNode(const std::string& agent_address, const v1::CheckNodeRequest& request,
                         absl::Time deadline, Answered<v1::NodeCheck> answered) = 0;
  // Best effort, answered within about a second. `request`: as Agent.Stop. Unavailable: the agent is gone;
  // DeadlineExceeded: it has not answered.
  virtual void Stop(const std::string& agent_address, const v1::StopRequest& request,
                    std::function<void(const absl::Status&)> answered) = 0;
};

}  // namespace medley
