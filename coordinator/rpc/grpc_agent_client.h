#pragma once
#include <map>
#include <memory>
#include <string>

#include "coordinator/orchestrator/agent_client.h"
#include "proto/medley/v1/agent.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// AgentClient over gRPC: one channel an agent, kept.
class GrpcAgentClient final : public AgentClient {
 public:
  absl::StatusOr<v1::PrepareResponse> Prepare(const std::string& agent_address,
                                              const v1::PrepareRequest& request) override;
  std::unique_ptr<RunningTask> Start(const std::string& agent_address, const v1::StartRequest& request,
                                     absl::Duration patience,
                                     std::function<void(const v1::WorkerEvent&)> on_event) override;
  absl::StatusOr<v1::NodeKernels> DescribeKernels(const std::string& agent_address,
                                                  absl::Time deadline) override;
  void Stop(const std::string& agent_address, const v1::StopRequest& request) override;

 private:
  std::shared_ptr<v1::Agent::Stub> StubOf(const std::string& agent_address);

  Mutex mutex_;
  std::map<std::string, std::shared_ptr<v1::Agent::Stub>> stubs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
