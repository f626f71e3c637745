#pragma once
#include <string>

#include "coordinator/joining/joining.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/rpc/audit.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"

namespace medley {

// The wire side of joining, registration and leases.
class RegistryService final : public v1::Registry::Service {
 public:
  RegistryService(Orchestrator& orchestrator, Joining& joining, Audit& audit)
      : orchestrator_(orchestrator), joining_(joining), audit_(audit) {}
  grpc::Status Register(grpc::ServerContext*, const v1::RegisterRequest*, v1::RegisterResponse*) override;
  grpc::Status Renew(grpc::ServerContext*, const v1::RenewRequest*, v1::RenewResponse*) override;
  grpc::Status Leave(grpc::ServerContext*, const v1::LeaveRequest*, v1::LeaveResponse*) override;
  grpc::Status Deregister(grpc::ServerContext*, const v1::DeregisterRequest*,
                          v1::DeregisterResponse*) override;
  grpc::Status GetAuthority(grpc::ServerContext*, const v1::GetAuthorityRequest*,
                            v1::GetAuthorityResponse*) override;
  grpc::Status Join(grpc::ServerContext*, const v1::JoinRequest*, v1::JoinResponse*) override;
  grpc::Status RenewCertificate(grpc::ServerContext*, const v1::RenewCertificateRequest*,
                                v1::JoinResponse*) override;

 private:
  // That the call is well formed, and of the node whose certificate it shows.
  absl::Status Admit(const grpc::ServerContext& context, const google::protobuf::Message& request,
                     const std::string& node);

  // That an agent has been certified, or was refused.
  void WriteDown(const grpc::ServerContext& context, const char* method, const std::string& node,
                 const absl::Status& status, const std::string& by);

  Orchestrator& orchestrator_;
  Joining& joining_;
  Audit& audit_;
};

}  // namespace medley
