#include "coordinator/cli/coordinator_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"

namespace medley {

struct CallHandle::State {
  Mutex mutex;
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

struct CoordinatorClient::Impl {
  std::string address;
  absl::Duration timeout;
  std::unique_ptr<v1::Coordinator::Stub> stub;

  absl::Status FromGrpc(const grpc::Status& status) const {
    if (status.ok()) return absl::OkStatus();
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
      return absl::UnavailableError(
          absl::StrCat("no coordinator at ", address, " (", status.error_message(), ")"));
    }
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      return absl::DeadlineExceededError(
          absl::StrCat("the coordinator at ", address, " did not answer in time"));
    }
    // The codes are the same numbers.
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }

  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(grpc::Status (v1::Coordinator::Stub::*method)(grpc::ClientContext*,
                                                                              const Request&, Response*),
                                const Request& request, absl::Duration limit) const {
    grpc::ClientContext context;
    context.set_deadline(ToSystemClock(Now() + limit));
    Response response;
    const grpc::Status status = (stub.get()->*method)(&context, request, &response);
    if (!status.ok()) return FromGrpc(status);
    return response;
  }

  template <typename Response, typename Request>
  absl::StatusOr<Response> OfJob(grpc::Status (v1::Coordinator::Stub::*method)(grpc::ClientContext*,
                                                                               const Request&, Response*),
                                 const std::string& job_id) const {
    Request request;
    request.set_job_id(job_id);
    return Call(method, request, timeout);
  }
};

CoordinatorClient::CoordinatorClient(const std::string& address, absl::Duration timeout) : impl_(new Impl) {
  impl_->address = address;
  impl_->timeout = timeout;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(256 << 20);  // the metrics of a long job
  impl_->stub = v1::Coordinator::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

CoordinatorClient::~CoordinatorClient() = default;

using Stub = v1::Coordinator::Stub;

absl::StatusOr<v1::Job> CoordinatorClient::Submit(const v1::SubmitJobRequest& request) {
  ASSIGN_OR_RETURN(v1::SubmitJobResponse response, impl_->Call(&Stub::SubmitJob, request, impl_->timeout));
  return std::move(*response.mutable_job());
}

absl::StatusOr<v1::Job> CoordinatorClient::GetJob(const std::string& job_id) {
  return impl_->OfJob(&Stub::GetJob, job_id);
}

absl::StatusOr<v1::ListJobsResponse> CoordinatorClient::ListJobs() {
  return impl_->Call(&Stub::ListJobs, v1::ListJobsRequest(), impl_->timeout);
}

absl::StatusOr<v1::Job> CoordinatorClient::Cancel(const std::string& job_id) {
  return impl_->OfJob(&Stub::CancelJob, job_id);
}

absl::StatusOr<v1::PlanReport> CoordinatorClient::PlanJob(const v1::JobSpec& spec) {
  v1::PlanJobRequest request;
  *request.mutable_spec() = spec;
  return impl_->Call(&Stub::PlanJob, request, std::max(10 * impl_->timeout, absl::Minutes(5)));
}

absl::StatusOr<v1::ListNodesResponse> CoordinatorClient::ListNodes() {
  return impl_->Call(&Stub::ListNodes, v1::ListNodesRequest(), impl_->timeout);
}

absl::StatusOr<v1::ListKernelsResponse> CoordinatorClient::ListKernels(const std::string& node) {
  v1::ListKernelsRequest request;
  request.set_node(node);
  return impl_->Call(&Stub::ListKernels, request, std::max(10 * impl_->timeout, absl::Minutes(5)));
}

absl::StatusOr<v1::ListLinksResponse> CoordinatorClient::ListLinks(const std::vector<std::string>& devices) {
  v1::ListLinksRequest request;
  request.mutable_devices()->Add(devices.begin(), devices.end());
  return impl_->Call(&Stub::ListLinks, request, impl_->timeout);
}

absl::StatusOr<v1::ListLinksResponse> CoordinatorClient::MeasureLinks(
    const std::vector<std::string>& devices) {
  v1::MeasureLinksRequest request;
  request.mutable_devices()->Add(devices.begin(), devices.end());
  return impl_->Call(&Stub::MeasureLinks, request, std::max(10 * impl_->timeout, absl::Hours(1)));
}

absl::StatusOr<v1::AllReduceExplanation> CoordinatorClient::ExplainAllReduce(
    const std::vector<std::string>& devices, uint64_t bytes) {
  v1::ExplainAllReduceRequest request;
  request.mutable_devices()->Add(devices.begin(), devices.end());
  request.set_bytes(bytes);
  return impl_->Call(&Stub::ExplainAllReduce, request, impl_->timeout);
}

absl::StatusOr<v1::PlanReport> CoordinatorClient::GetPlan(const std::string& job_id) {
  return impl_->OfJob(&Stub::GetPlan, job_id);
}

absl::StatusOr<v1::Trace> CoordinatorClient::GetTrace(const std::string& job_id) {
  return impl_->OfJob(&Stub::GetTrace, job_id);
}

absl::StatusOr<v1::ListStepsResponse> CoordinatorClient::ListSteps(const std::string& job_id) {
  return impl_->OfJob(&Stub::ListSteps, job_id);
}

absl::StatusOr<v1::ListLogsResponse> CoordinatorClient::ListLogs(const std::string& job_id) {
  return impl_->OfJob(&Stub::ListLogs, job_id);
}

absl::StatusOr<v1::ClusterSpec> CoordinatorClient::ExportCluster() {
  return impl_->Call(&Stub::ExportCluster, v1::ExportClusterRequest(), impl_->timeout);
}

absl::Status CoordinatorClient::Watch(const std::string& job_id, uint32_t after_step, CallHandle& handle,
                                      const std::function<void(const v1::JobUpdate&)>& on_update) {
  CallHandle::State& state = *handle.state_;
  grpc::ClientContext context;
  context.set_deadline(ToSystemClock(Now() + absl::Hours(1)));
  {
    MutexLock lock(state.mutex);
    if (state.cancelled) return absl::CancelledError("cancelled");
    state.context = &context;
  }
  v1::WatchJobRequest request;
  request.set_job_id(job_id);
  request.set_after_step(after_step);
  const auto reader = impl_->stub->WatchJob(&context, request);
  v1::JobUpdate update;
  while (reader->Read(&update)) on_update(update);
  const grpc::Status status = reader->Finish();
  MutexLock lock(state.mutex);
  state.context = nullptr;
  return impl_->FromGrpc(status);
}

}  // namespace medley
