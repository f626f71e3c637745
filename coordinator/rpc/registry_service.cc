#include "coordinator/rpc/registry_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/rpc/agent_version.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/version.h"
#include "runtime/log/request_id.h"
#include "runtime/wire/grpc_request.h"
#include "runtime/wire/grpc_status.h"
#include "runtime/wire/validate.h"

namespace medley {

absl::Status RegistryService::Admit(const grpc::ServerContext& context,
                                    const google::protobuf::Message& request, const std::string& node) {
  RETURN_IF_ERROR(ValidateMessage(request));
  const absl::Status may = MayBeNode(context, node);
  // An agent that says it is another node is not one that has made a mistake.
  if (!may.ok())
    audit_.WriteRefusal(
        {.name = CallerOf(context), .role = v1::ROLE_AGENT},
        absl::StrCat("/medley.v1.Registry/", absl::StripSuffix(request.GetDescriptor()->name(), "Request")),
        may);
  return may;
}

grpc::Status RegistryService::Register(grpc::ServerContext* context, const v1::RegisterRequest* request,
                                       v1::RegisterResponse* response) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status may = Admit(*context, *request, request->node().name()); !may.ok())
    return ToGrpc(may);
  if (const absl::Status together = CheckAgentVersion(request->medley_version(), kMedleyVersion);
      !together.ok())
    return ToGrpc(together);
  absl::StatusOr<v1::RegisterResponse> registered = orchestrator_.Register(*request);
  if (!registered.ok()) return ToGrpc(registered.status());
  *response = *std::move(registered);
  return grpc::Status::OK;
}

grpc::Status RegistryService::Leave(grpc::ServerContext* context, const v1::LeaveRequest* request,
                                    v1::LeaveResponse* response) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status may = Admit(*context, *request, request->node()); !may.ok()) return ToGrpc(may);
  absl::StatusOr<v1::LeaveResponse> left = orchestrator_.Leave(*request);
  if (!left.ok()) return ToGrpc(left.status());
  *response = *std::move(left);
  return grpc::Status::OK;
}

grpc::Status RegistryService::Deregister(grpc::ServerContext* context, const v1::DeregisterRequest* request,
                                         v1::DeregisterResponse*) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status may = Admit(*context, *request, request->node()); !may.ok()) return ToGrpc(may);
  orchestrator_.Deregister(*request);
  return grpc::Status::OK;
}

grpc::Status RegistryService::Renew(grpc::ServerContext* context, const v1::RenewRequest* request,
                                    v1::RenewResponse* response) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status may = Admit(*context, *request, request->node()); !may.ok()) return ToGrpc(may);
  const absl::StatusOr<absl::Duration> lease = orchestrator_.Renew(*request);
  if (!lease.ok()) return ToGrpc(lease.status());
  response->set_lease_seconds(absl::ToDoubleSeconds(*lease));
  return grpc::Status::OK;
}

grpc::Status RegistryService::GetAuthority(grpc::ServerContext* context, const v1::GetAuthorityRequest*,
                                           v1::GetAuthorityResponse* response) {
  const RequestScope scope(TakeRequestId(*context));
  absl::StatusOr<v1::GetAuthorityResponse> authority = joining_.GetAuthority();
  if (authority.ok()) *response = *std::move(authority);
  return ToGrpc(authority.status());
}

void RegistryService::WriteDown(const grpc::ServerContext& context, const char* method,
                                const std::string& node, const absl::Status& status, const std::string& by) {
  if (status.ok()) audit_.WriteCertified(context, method, node, by);
  if (absl::IsPermissionDenied(status))
    audit_.WriteRefusal({.name = CallerOf(context)}, absl::StrCat("/medley.v1.Registry/", method), status);
}

grpc::Status RegistryService::Join(grpc::ServerContext* context, const v1::JoinRequest* request,
                                   v1::JoinResponse* response) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  absl::StatusOr<v1::JoinResponse> joined = joining_.Join(*request);
  if (joined.ok()) *response = *std::move(joined);
  WriteDown(*context, "Join", request->node(), joined.status(),
            absl::StrCat("by token ", request->token_id()));
  return ToGrpc(joined.status());
}

grpc::Status RegistryService::RenewCertificate(grpc::ServerContext* context,
                                               const v1::RenewCertificateRequest* request,
                                               v1::JoinResponse* response) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status may = Admit(*context, *request, request->node()); !may.ok()) return ToGrpc(may);
  absl::StatusOr<v1::JoinResponse> renewed = joining_.Renew(*request, ShownCertificate(*context));
  if (renewed.ok()) *response = *std::move(renewed);
  WriteDown(*context, "RenewCertificate", request->node(), renewed.status(), "");
  return ToGrpc(renewed.status());
}

}  // namespace medley
