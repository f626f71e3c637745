#include "cli/coordinator_client.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/connection_error.h"
#include "cli/text_table.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/security/credentials.h"
#include "runtime/wire/grpc_channel.h"
#include "runtime/wire/grpc_request.h"

namespace medley {

namespace {

// A host that vanishes is told from one that is slow by silence for so long and then for a call's time, for at least so long.
constexpr absl::Duration kKeepalive = absl::Seconds(5), kLeastSilence = absl::Seconds(3);
// A coordinator that is started again is found within a second, however long it was away. An attempt to connect has longer, as with
// all daemons: on a busy machine TLS's handshake alone may take seconds, and a call whose attempt fails is not asked again.
constexpr absl::Duration kFirstReconnect = absl::Milliseconds(100), kLongestReconnect = absl::Seconds(1);
constexpr Bytes kMostReply = MiB(256);  // the metrics of a long job

void SetDeadline(grpc::ClientContext& context, absl::Duration limit) {
  if (limit != absl::InfiniteDuration()) context.set_deadline(ToSystemClock(Now() + limit));
}

// Whether a status was sent by the coordinator, and not made up on this side because it could not be asked.
bool WasSent(const grpc::ClientContext& context) {
  return absl::StrContains(context.debug_error_string(), "Error received from peer");
}

}  // namespace

struct CallHandle::State {
  mutable Mutex mutex;
  grpc::ClientContext* context = nullptr;  // of the call under way
  bool cancelled = false;
};

CallHandle::CallHandle() : state_(std::make_shared<State>()) {}
CallHandle::~CallHandle() = default;

void CallHandle::Cancel() {
  MutexLock lock(state_->mutex);
  state_->cancelled = true;
  if (state_->context != nullptr) state_->context->TryCancel();
}

bool CallHandle::cancelled() const {
  MutexLock lock(state_->mutex);
  return state_->cancelled;
}

struct CoordinatorClient::Impl {
  std::string address;
  absl::Duration timeout;
  bool is_timeout_given = false;
  std::unique_ptr<v1::Coordinator::Stub> stub;

  absl::Duration long_timeout() const { return std::max(10 * timeout, absl::Minutes(5)); }
  // Of calls that take as long as planning, measuring or copying does. Who asks can end them, and that the coordinator's host is gone
  // is found by keepalive: nothing else ends them but a timeout that was asked for.
  absl::Duration patience(absl::Duration planning = absl::ZeroDuration()) const {
    return is_timeout_given ? long_timeout() + planning : absl::InfiniteDuration();
  }

  absl::Status FromGrpc(const grpc::ClientContext& context, const grpc::Status& status) const {
    absl::Status error = ErrorOf(context, status);
    if (const std::string id = AnsweredRequestId(context); !error.ok() && !id.empty())
      error.SetPayload(kRequestIdKey, absl::Cord(id));
    return error;
  }

  absl::Status ErrorOf(const grpc::ClientContext& context, const grpc::Status& status) const {
    if (status.ok()) return absl::OkStatus();
    // What a worker or a file name says may be part of it, and ends on a terminal.
    const std::string message = Printable(status.error_message());
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE && (!WasSent(context) || IsSilence(message))) {
      return absl::UnavailableError(DescribeUnreachable(address, message));
    }
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && !WasSent(context)) {
      return absl::DeadlineExceededError(absl::StrCat(
          "the coordinator at ", address, " did not answer in time; --timeout SECONDS gives it more"));
    }
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
      return absl::UnimplementedError(
          absl::StrCat("what listens at ", address,
                       " does not know this call: it is no coordinator, or one of another version"));
    }
    // The codes are the same numbers.
    return absl::Status(
        static_cast<absl::StatusCode>(status.error_code()),
        message.empty() ? absl::StrCat("the coordinator at ", address, " gave no reason") : message);
  }

  // A call that `handle` may end.
  class Cancellable {
   public:
    Cancellable(CallHandle& handle, grpc::ClientContext& context) : state_(*handle.state_) {
      MutexLock lock(state_.mutex);
      state_.context = &context;
      if (state_.cancelled) context.TryCancel();
    }
    ~Cancellable() {
      MutexLock lock(state_.mutex);
      state_.context = nullptr;
    }

   private:
    CallHandle::State& state_;
  };

  template <typename Response, typename Request>
  using Method = grpc::Status (v1::Coordinator::Stub::*)(grpc::ClientContext*, const Request&, Response*);

  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(Method<Response, Request> method, const Request& request,
                                absl::Duration limit, CallHandle* handle = nullptr) const {
    grpc::ClientContext context;
    SetDeadline(context, limit);
    std::optional<Cancellable> cancellable;
    if (handle != nullptr) cancellable.emplace(*handle, context);
    Response response;
    const grpc::Status status = (stub.get()->*method)(&context, request, &response);
    if (!status.ok()) return FromGrpc(context, status);
    return response;
  }

  template <typename Part, typename Request>
  using StreamMethod = std::unique_ptr<grpc::ClientReader<Part>> (v1::Coordinator::Stub::*)(
      grpc::ClientContext*, const Request&);

  // The parts of an answer, merged.
  template <typename Part, typename Request>
  absl::StatusOr<Part> CallForParts(StreamMethod<Part, Request> method, const Request& request,
                                    absl::Duration limit, CallHandle* handle = nullptr) const {
    grpc::ClientContext context;
    SetDeadline(context, limit);
    std::optional<Cancellable> cancellable;
    if (handle != nullptr) cancellable.emplace(*handle, context);
    const std::unique_ptr<grpc::ClientReader<Part>> reader = (stub.get()->*method)(&context, request);
    Part whole, part;
    while (reader->Read(&part)) whole.MergeFrom(part);
    const grpc::Status status = reader->Finish();
    if (!status.ok()) return FromGrpc(context, status);
    return whole;
  }

  template <typename Response, typename Request>
  absl::StatusOr<Response> OfJob(Method<Response, Request> method, const std::string& job_id,
                                 CallHandle* handle = nullptr) const {
    Request request;
    request.set_job_id(job_id);
    return Call(method, request, timeout, handle);
  }
};

CoordinatorClient::CoordinatorClient(const std::string& address, std::optional<absl::Duration> timeout,
                                     const std::optional<v1::TlsConfig>& tls)
    : impl_(new Impl) {
  gpr_set_log_function([](gpr_log_func_args*) {});  // what goes wrong is said by the calls
  impl_->address = address;
  impl_->timeout = timeout.value_or(kUsualTimeout);
  impl_->is_timeout_given = timeout.has_value();
  impl_->stub = v1::Coordinator::NewStub(OpenChannel(
      address, {.keepalive = kKeepalive,
                .keepalive_answer = std::max(impl_->timeout, kLeastSilence),
                .first_reconnect = kFirstReconnect,
                .longest_reconnect = kLongestReconnect,
                .most_reply = kMostReply,
                .credentials = tls.has_value() ? ChannelTls(*tls, v1::ROLE_COORDINATOR) : nullptr}));
}

CoordinatorClient::~CoordinatorClient() = default;

const std::string& CoordinatorClient::address() const { return impl_->address; }

using Stub = v1::Coordinator::Stub;

absl::StatusOr<v1::Job> CoordinatorClient::Submit(const v1::SubmitJobRequest& request) {
  ASSIGN_OR_RETURN(v1::SubmitJobResponse response, impl_->Call(&Stub::SubmitJob, request, impl_->timeout));
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::Job> CoordinatorClient::GetJob(const std::string& job_id, CallHandle* handle) {
  return impl_->OfJob(&Stub::GetJob, job_id, handle);
}

absl::StatusOr<v1::ListJobsResponse> CoordinatorClient::ListJobs(uint32_t limit, CallHandle* handle) {
  v1::ListJobsRequest request;
  request.set_limit(limit);
  return impl_->CallForParts(&Stub::ListJobs, request, impl_->timeout, handle);
}

absl::StatusOr<v1::Job> CoordinatorClient::Cancel(const v1::CancelJobRequest& request, CallHandle& handle) {
  return impl_->Call(&Stub::CancelJob, request, impl_->timeout, &handle);
}

absl::StatusOr<v1::Job> CoordinatorClient::Resume(const std::string& job_id) {
  return impl_->OfJob(&Stub::ResumeJob, job_id);
}

absl::StatusOr<v1::ReplanJobResponse> CoordinatorClient::Replan(const v1::ReplanJobRequest& request,
                                                                CallHandle& handle) {
  return impl_->Call(&Stub::ReplanJob, request, impl_->patience(), &handle);
}

absl::StatusOr<v1::Job> CoordinatorClient::Hold(const v1::HoldJobRequest& request) {
  return impl_->Call(&Stub::HoldJob, request, impl_->timeout);
}

absl::Status CoordinatorClient::Delete(const std::string& job_id) {
  return impl_->OfJob(&Stub::DeleteJob, job_id).status();
}

absl::Status CoordinatorClient::ForgetNode(const std::string& node) {
  v1::ForgetNodeRequest request;
  request.set_node(node);
  return impl_->Call(&Stub::ForgetNode, request, impl_->timeout).status();
}

absl::StatusOr<v1::DrainNodeResponse> CoordinatorClient::DrainNode(const v1::DrainNodeRequest& request) {
  return impl_->Call(&Stub::DrainNode, request, impl_->timeout);
}

absl::Status CoordinatorClient::UndrainNode(const std::string& node) {
  v1::UndrainNodeRequest request;
  request.set_node(node);
  return impl_->Call(&Stub::UndrainNode, request, impl_->timeout).status();
}

absl::Status CoordinatorClient::BackUp(CallHandle& handle,
                                       const std::function<bool(const std::string& bytes)>& take) {
  grpc::ClientContext context;
  SetDeadline(context, impl_->patience());
  const Impl::Cancellable cancellable(handle, context);
  const auto reader = impl_->stub->BackUp(&context, v1::BackUpRequest());
  for (v1::BackUpPart part; reader->Read(&part);) {
    if (!take(part.bytes())) context.TryCancel();
  }
  return impl_->FromGrpc(context, reader->Finish());
}

absl::StatusOr<v1::PlanReport> CoordinatorClient::GetPlan(const v1::GetPlanRequest& request,
                                                          CallHandle& handle) {
  return impl_->Call(&Stub::GetPlan, request, impl_->patience(), &handle);
}

absl::StatusOr<v1::PlanReport> CoordinatorClient::PlanJob(const v1::PlanJobRequest& request,
                                                          CallHandle& handle) {
  return impl_->Call(&Stub::PlanJob, request, impl_->patience(absl::Seconds(request.time_limit_seconds())),
                     &handle);
}

absl::StatusOr<v1::ListNodesResponse> CoordinatorClient::ListNodes() {
  return impl_->Call(&Stub::ListNodes, v1::ListNodesRequest(), impl_->timeout);
}

absl::StatusOr<v1::ListKernelsResponse> CoordinatorClient::ListKernels(const std::string& node,
                                                                       CallHandle& handle) {
  v1::ListKernelsRequest request;
  request.set_node(node);
  return impl_->Call(&Stub::ListKernels, request, impl_->long_timeout(), &handle);
}

absl::StatusOr<v1::CheckNodesResponse> CoordinatorClient::CheckNodes(const v1::CheckNodesRequest& request) {
  return impl_->Call(&Stub::CheckNodes, request, impl_->long_timeout());
}

absl::StatusOr<v1::GetStacksResponse> CoordinatorClient::GetStacks(const std::string& job_id) {
  v1::GetStacksRequest request;
  request.set_job_id(job_id);
  return impl_->Call(&Stub::GetStacks, request, impl_->long_timeout());
}

absl::StatusOr<v1::ListLinksResponse> CoordinatorClient::ListLinks(const std::vector<std::string>& devices,
                                                                   v1::MessageProtection protection) {
  v1::ListLinksRequest request;
  request.mutable_devices()->Add(devices.begin(), devices.end());
  request.set_message_protection(protection);
  return impl_->CallForParts(&Stub::ListLinks, request, impl_->timeout);
}

absl::StatusOr<v1::ListLinksResponse> CoordinatorClient::MeasureLinks(const std::vector<std::string>& devices,
                                                                      v1::MessageProtection protection,
                                                                      CallHandle& handle) {
  v1::MeasureLinksRequest request;
  request.mutable_devices()->Add(devices.begin(), devices.end());
  request.set_message_protection(protection);
  return impl_->CallForParts(&Stub::MeasureLinks, request, std::max(impl_->patience(), absl::Hours(1)),
                             &handle);
}

absl::StatusOr<v1::AllReduceExplanation> CoordinatorClient::ExplainAllReduce(
    const std::vector<std::string>& devices, uint64_t bytes) {
  v1::ExplainAllReduceRequest request;
  request.mutable_devices()->Add(devices.begin(), devices.end());
  request.set_bytes(bytes);
  return impl_->Call(&Stub::ExplainAllReduce, request, impl_->timeout);
}

absl::StatusOr<v1::Trace> CoordinatorClient::GetTrace(const std::string& job_id, uint32_t step) {
  v1::GetTraceRequest request;
  request.set_job_id(job_id);
  request.set_step(step);
  return impl_->Call(&Stub::GetTrace, request, impl_->timeout);
}

absl::Status CoordinatorClient::TraceSteps(const v1::TraceStepsRequest& request, CallHandle& handle,
                                           const std::function<void(const v1::TraceStepsUpdate&)>& take) {
  grpc::ClientContext context;
  const Impl::Cancellable cancellable(handle, context);
  const auto reader = impl_->stub->TraceSteps(&context, request);
  for (v1::TraceStepsUpdate update; reader->Read(&update);) take(update);
  return impl_->FromGrpc(context, reader->Finish());
}

absl::StatusOr<v1::ListStepsResponse> CoordinatorClient::ListSteps(const v1::ListStepsRequest& request,
                                                                   CallHandle* handle) {
  return impl_->CallForParts(&Stub::ListSteps, request, impl_->timeout, handle);
}

absl::StatusOr<v1::ListLogsResponse> CoordinatorClient::ListLogs(const v1::ListLogsRequest& request,
                                                                 CallHandle* handle) {
  return impl_->Call(&Stub::ListLogs, request, impl_->timeout, handle);
}

absl::StatusOr<v1::ClusterSpec> CoordinatorClient::ExportCluster() {
  return impl_->CallForParts(&Stub::ExportCluster, v1::ExportClusterRequest(), impl_->timeout);
}

absl::StatusOr<v1::ListAuditResponse> CoordinatorClient::ListAudit(const v1::ListAuditRequest& request) {
  return impl_->CallForParts(&Stub::ListAudit, request, impl_->timeout);
}

absl::StatusOr<v1::CreateJoinTokenResponse> CoordinatorClient::CreateJoinToken(
    const v1::CreateJoinTokenRequest& request) {
  return impl_->Call(&Stub::CreateJoinToken, request, impl_->timeout);
}

absl::StatusOr<v1::ListJoinTokensResponse> CoordinatorClient::ListJoinTokens() {
  return impl_->CallForParts(&Stub::ListJoinTokens, v1::ListJoinTokensRequest(), impl_->timeout);
}

absl::Status CoordinatorClient::RevokeJoinToken(const std::string& id) {
  v1::RevokeJoinTokenRequest request;
  request.set_token_id(id);
  return impl_->Call(&Stub::RevokeJoinToken, request, impl_->timeout).status();
}

absl::Status CoordinatorClient::Watch(const std::string& job_id, uint32_t after_step, CallHandle& handle,
                                      const std::function<void(const v1::JobUpdate&)>& on_update) {
  grpc::ClientContext context;
  context.set_deadline(ToSystemClock(Now() + absl::Hours(1)));
  const Impl::Cancellable cancellable(handle, context);
  v1::WatchJobRequest request;
  request.set_job_id(job_id);
  request.set_after_step(after_step);
  const auto reader = impl_->stub->WatchJob(&context, request);
  v1::JobUpdate update;
  while (reader->Read(&update)) on_update(update);
  return impl_->FromGrpc(context, reader->Finish());
}

}  // namespace medley
