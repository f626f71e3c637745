#include "agent/rpc/agent_service.h"

#include "agent/rpc/prepare_check.h"
#include "runtime/base/clock.h"
#include "runtime/codec/validate.h"
#include "runtime/rpc/grpc_status.h"

namespace medley {
namespace {

// Of a call without one.
constexpr absl::Duration kDefaultTime = absl::Minutes(5);
// What the answer needs on its way.
constexpr absl::Duration kAnswerTime = absl::Seconds(1);

absl::Time DeadlineOf(const grpc::ServerContext& context) {
  const absl::Time latest = Now() + kDefaultTime;
  const absl::Time asked = FromSystemClock(context.deadline());
  return std::min(asked, latest);
}

}  // namespace

grpc::Status AgentService::Prepare(grpc::ServerContext* context, const v1::PrepareRequest* request,
                                   v1::PrepareResponse* response) {
  if (const absl::Status valid = CheckPrepare(*request); !valid.ok()) return ToGrpc(valid);
  absl::StatusOr<v1::PrepareResponse> prepared = supervisor_.Prepare(*request, DeadlineOf(*context));
  if (!prepared.ok()) return ToGrpc(prepared.status());
  *response = *std::move(prepared);
  return grpc::Status::OK;
}

grpc::Status AgentService::Start(grpc::ServerContext* context, const v1::StartRequest* request,
                                 grpc::ServerWriter<v1::WorkerEvent>* writer) {
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  return ToGrpc(supervisor_.Run(
      request->task_id(), {request->data_plane_addresses().begin(), request->data_plane_addresses().end()},
      [&](const v1::WorkerEvent& event) { return writer->Write(event); }, [&] { return !context->IsCancelled(); }));
}

grpc::Status AgentService::Stop(grpc::ServerContext*, const v1::StopRequest* request, v1::StopResponse*) {
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  supervisor_.Stop(request->task_id());
  return grpc::Status::OK;
}

grpc::Status AgentService::DescribeKernels(grpc::ServerContext* context, const v1::DescribeKernelsRequest*,
                                           v1::NodeKernels* response) {
  *response = kernels_.Get(DeadlineOf(*context) - kAnswerTime);
  return grpc::Status::OK;
}

}  // namespace medley
