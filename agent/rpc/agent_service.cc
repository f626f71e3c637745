#include "agent/rpc/agent_service.h"

#include "agent/check/node_check.h"
#include "agent/rpc/prepare_check.h"
#include "runtime/base/clock.h"
#include "runtime/log/request_id.h"
#include "runtime/wire/grpc_request.h"
#include "runtime/wire/grpc_status.h"
#include "runtime/wire/validate.h"

namespace medley {
namespace {

// A description of kernels takes no longer where the call has no deadline.
constexpr absl::Duration kDescribeTime = absl::Minutes(5);
// Nor do stacks, of some hundreds of threads.
constexpr absl::Duration kStacksTime = absl::Minutes(1);
// The answer needs so long on its way.
constexpr absl::Duration kAnswerTime = absl::Seconds(1);

// UNAVAILABLE is what gRPC says of an agent that cannot be reached. A worker that is gone is something else.
absl::Status NotUnavailable(const absl::Status& status) {
  return absl::IsUnavailable(status) ? absl::AbortedError(status.message()) : status;
}

}  // namespace

grpc::Status AgentService::Prepare(grpc::ServerContext* context, const v1::PrepareRequest* request,
                                   v1::PrepareResponse* response) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status valid = CheckPrepare(*request, allowed_directories_, least_protection_); !valid.ok())
    return ToGrpc(valid);
  absl::StatusOr<v1::PrepareResponse> prepared =
      supervisor_.Prepare(*request, FromSystemClock(context->deadline()));
  if (!prepared.ok()) return ToGrpc(NotUnavailable(prepared.status()));
  *response = *std::move(prepared);
  return grpc::Status::OK;
}

grpc::Status AgentService::Start(grpc::ServerContext* context, const v1::StartRequest* request,
                                 grpc::ServerWriter<v1::WorkerEvent>* writer) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  // A task may say nothing for long: who listens knows by this that the agent was reached.
  writer->SendInitialMetadata();
  return ToGrpc(supervisor_.Follow(
      *request, [&](const v1::WorkerEvent& event) { return writer->Write(event); },
      [&] { return !context->IsCancelled(); }));
}

grpc::Status AgentService::Stop(grpc::ServerContext* context, const v1::StopRequest* request,
                                v1::StopResponse*) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  if (request->after_checkpoint()) return ToGrpc(supervisor_.FinishEarly(request->task_id()));
  supervisor_.Stop(request->task_id());
  return grpc::Status::OK;
}

grpc::Status AgentService::DescribeKernels(grpc::ServerContext* context, const v1::DescribeKernelsRequest*,
                                           v1::NodeKernels* response) {
  const RequestScope scope(TakeRequestId(*context));
  *response =
      kernels_.Get(std::min(FromSystemClock(context->deadline()), Now() + kDescribeTime) - kAnswerTime);
  return grpc::Status::OK;
}

grpc::Status AgentService::DescribeStacks(grpc::ServerContext* context,
                                          const v1::DescribeStacksRequest* request,
                                          v1::DescribeStacksResponse* response) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  absl::StatusOr<std::string> stacks = supervisor_.Stacks(
      request->task_id(), std::min(FromSystemClock(context->deadline()), Now() + kStacksTime) - kAnswerTime);
  if (!stacks.ok()) return ToGrpc(NotUnavailable(stacks.status()));
  response->set_text(*std::move(stacks));
  return grpc::Status::OK;
}

grpc::Status AgentService::TraceTask(grpc::ServerContext* context, const v1::TraceTaskRequest* request,
                                     v1::TraceTaskResponse* response) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  absl::StatusOr<v1::TraceTaskResponse> answer = supervisor_.Trace(
      *request, std::min(FromSystemClock(context->deadline()), Now() + kStacksTime) - kAnswerTime);
  if (!answer.ok()) return ToGrpc(NotUnavailable(answer.status()));
  *response = *std::move(answer);
  return grpc::Status::OK;
}

grpc::Status AgentService::CheckNode(grpc::ServerContext* context, const v1::CheckNodeRequest* request,
                                     v1::NodeCheck* response) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  *response =
      medley::CheckNode({.devices = kernels_.devices(),
                         .directories = {request->directories().begin(), request->directories().end()},
                         .allowed_directories = allowed_directories_});
  return grpc::Status::OK;
}

}  // namespace medley
