#pragma once
#include <grpcpp/client_context.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "coordinator/orchestrator/agent_client.h"
#include "coordinator/rpc/timer_queue.h"
#include "proto/medley/v1/agent.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// AgentClient over gRPC: one channel an agent, kept. All calls and tasks are served by gRPC's own threads, which are as
// many as there are cores, and one for what is to be done later. The destructor waits for the calls under way; tasks
// end before it.
class GrpcAgentClient final : public AgentClient {
 public:
  ~GrpcAgentClient() override;

  void Prepare(const std::string& agent_address, const v1::PrepareRequest& request,
               Answered<v1::PrepareResponse> answered) override;
  std::unique_ptr<RunningTask> Start(const std::string& agent_address, const v1::StartRequest& request,
                                     absl::Duration patience, TaskListener listener) override;
  void DescribeKernels(const std::string& agent_address, absl::Time deadline,
                       Answered<v1::NodeKernels> answered) override;
  void Stop(const std::string& agent_address, const v1::StopRequest& request,
            std::function<void()> answered) override;

 private:
  using Async = v1::Agent::StubInterface::async_interface;
  template <typename Request, typename Response>
  using Method = void (Async::*)(grpc::ClientContext*, const Request*, Response*,
                                 std::function<void(grpc::Status)>);
  template <typename Request, typename Response>
  void Ask(const std::string& agent_address, Method<Request, Response> method, const Request& request,
           absl::Time deadline, Answered<Response> answered);
  std::shared_ptr<v1::Agent::Stub> StubOf(const std::string& agent_address);

  TimerQueue timers_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::map<std::string, std::shared_ptr<v1::Agent::Stub>> stubs_ ABSL_GUARDED_BY(mutex_);
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;  // calls but for tasks
};

}  // namespace medley
