#pragma once
#include <memory>

#include "coordinator/orchestrator/agent_client.h"
#include "coordinator/rpc/timer_queue.h"
#include "proto/medley/v1/agent.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// Listens to a task over gRPC without a thread of its own: one call after another while the agent cannot be reached.
class TaskStream final : public RunningTask {
 public:
  // `timers` outlives it.
  TaskStream(TimerQueue& timers, std::shared_ptr<v1::Agent::Stub> stub, const v1::StartRequest& request,
             absl::Duration patience, TaskListener listener);
  ~TaskStream() override;
  void Cancel() override;

 private:
  class Listening;
  const std::shared_ptr<Listening> listening_;
};

}  // namespace medley
