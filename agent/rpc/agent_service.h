#pragma once
#include "agent/supervisor/supervisor.h"
#include "proto/medley/v1/agent.grpc.pb.h"

namespace medley {

// The wire side of Supervisor, and nothing else: check, call, encode.
class AgentService final : public v1::Agent::Service {
 public:
  explicit AgentService(Supervisor& supervisor) : supervisor_(supervisor) {}

  grpc::Status Prepare(grpc::ServerContext* context, const v1::PrepareRequest* request,
                       v1::PrepareResponse* response) override;
  grpc::Status Start(grpc::ServerContext* context, const v1::StartRequest* request,
                     grpc::ServerWriter<v1::WorkerEvent>* writer) override;
  grpc::Status Stop(grpc::ServerContext* context, const v1::StopRequest* request, v1::StopResponse* response) override;

 private:
  Supervisor& supervisor_;
};

}  // namespace medley
