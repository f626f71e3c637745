#include "coordinator/rpc/coordinator_service.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "coordinator/wire/job_life_codec.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/grpc_status.h"
#include "runtime/wire/validate.h"

namespace medley {
namespace {

constexpr int kDefaultJobs = 100;
constexpr int kDefaultLogLines = 1000;
// How often a stream without news looks whether its reader is still there.
constexpr absl::Duration kLookAroundEvery = absl::Milliseconds(250);

// Checks the request, calls, and stores the answer.
template <typename Request, typename Response, typename Call>
grpc::Status Answer(const Request& request, Response& response, Call call) {
  if (const absl::Status valid = ValidateMessage(request); !valid.ok()) return ToGrpc(valid);
  absl::StatusOr<Response> result = call();
  if (!result.ok()) return ToGrpc(result.status());
  response = *std::move(result);
  return grpc::Status::OK;
}

template <typename Message>
void Fill(google::protobuf::RepeatedPtrField<Message>& field, const std::vector<Message>& messages) {
  field.Add(messages.begin(), messages.end());
}

bool HasEnded(const v1::Job& job) {
  const absl::StatusOr<JobLife> life = LifeOf(job);
  return life.ok() && IsEnded(life->state);
}

}  // namespace

grpc::Status CoordinatorService::SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                                           v1::SubmitJobResponse* response) {
  return Answer(*request, *response->mutable_job(), [&] { return orchestrator_.Submit(*request); });
}

grpc::Status CoordinatorService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                        v1::Job* response) {
  return Answer(*request, *response, [&] { return orchestrator_.journal().Get(request->job_id()); });
}

grpc::Status CoordinatorService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                                          v1::ListJobsResponse* response) {
  return Answer(*request, *response, [&]() -> absl::StatusOr<v1::ListJobsResponse> {
    const int limit = request->limit() == 0 ? kDefaultJobs : static_cast<int>(request->limit());
    ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, orchestrator_.journal().List(limit));
    v1::ListJobsResponse all;
    Fill(*all.mutable_jobs(), jobs);
    return all;
  });
}

grpc::Status CoordinatorService::WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                                          grpc::ServerWriter<v1::JobUpdate>* writer) {
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  JobJournal& journal = orchestrator_.journal();
  uint32_t after_step = request->after_step(), after_validation = request->after_step();
  uint64_t seen = 0;
  uint32_t attempt = 0, first_step = 0;  // that the reader has heard of
  while (!context->IsCancelled() && !stopping_) {
    const JobJournal::Glance glance = journal.AwaitChange(request->job_id(), seen, Now() + kLookAroundEvery);
    if (glance.version == seen && seen != 0) continue;
    seen = glance.version;
    // An attempt makes steps anew that the reader was told before.
    if (glance.first_step != 0 && (glance.attempt != attempt || glance.first_step != first_step)) {
      // The first attempt made nothing anew that a reader may have been told before it asked.
      const bool told = attempt != 0 || (glance.attempt > 1 && after_step >= glance.first_step);
      if (told && glance.attempt != attempt) {
        after_step = std::min(after_step, glance.first_step - 1);
        after_validation = std::min(after_validation, glance.first_step - 1);
      }
      attempt = glance.attempt;
      first_step = glance.first_step;
    }
    const absl::StatusOr<v1::Job> job = journal.Get(request->job_id());
    if (!job.ok()) return ToGrpc(job.status());
    const auto steps = store_.ListSteps(request->job_id(), after_step);
    const auto validations = store_.ListValidations(request->job_id(), after_validation);
    if (!steps.ok() || !validations.ok()) return ToGrpc(steps.ok() ? validations.status() : steps.status());
    v1::JobUpdate update;
    *update.mutable_job() = *job;
    Fill(*update.mutable_steps(), *steps);
    Fill(*update.mutable_validations(), *validations);
    if (!steps->empty()) after_step = steps->back().step();
    if (!validations->empty()) after_validation = validations->back().step();
    if (!writer->Write(update)) return grpc::Status::OK;
    if (HasEnded(*job)) return grpc::Status::OK;
  }
  return stopping_ ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping")
                   : grpc::Status::CANCELLED;
}

grpc::Status CoordinatorService::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                           v1::Job* response) {
  return Answer(*request, *response, [&] { return orchestrator_.Cancel(*request); });
}

grpc::Status CoordinatorService::ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                                           v1::Job* response) {
  return Answer(*request, *response, [&] { return orchestrator_.Resume(request->job_id()); });
}

grpc::Status CoordinatorService::ReplanJob(grpc::ServerContext*, const v1::ReplanJobRequest* request,
                                           v1::ReplanJobResponse* response) {
  return Answer(*request, *response, [&] { return orchestrator_.Replan(*request); });
}

grpc::Status CoordinatorService::HoldJob(grpc::ServerContext*, const v1::HoldJobRequest* request,
                                         v1::Job* response) {
  return Answer(*request, *response, [&] { return orchestrator_.Hold(*request); });
}

grpc::Status CoordinatorService::DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest* request,
                                           v1::DeleteJobResponse*) {
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  return ToGrpc(orchestrator_.Delete(request->job_id()));
}

grpc::Status CoordinatorService::ForgetNode(grpc::ServerContext*, const v1::ForgetNodeRequest* request,
                                            v1::ForgetNodeResponse*) {
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  return ToGrpc(orchestrator_.ForgetNode(request->node()));
}

grpc::Status CoordinatorService::PlanJob(grpc::ServerContext* context, const v1::PlanJobRequest* request,
                                         v1::PlanReport* response) {
  return Answer(*request, *response,
                [&] { return orchestrator_.Plan(*request, [&] { return context->IsCancelled(); }); });
}

grpc::Status CoordinatorService::ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*,
                                           v1::ListNodesResponse* response) {
  Fill(*response->mutable_nodes(), orchestrator_.Nodes());
  const absl::StatusOr<std::vector<v1::DeviceProfile>> profiles = orchestrator_.Profiles();
  if (!profiles.ok()) return ToGrpc(profiles.status());
  Fill(*response->mutable_profiles(), *profiles);
  return grpc::Status::OK;
}

grpc::Status CoordinatorService::ListKernels(grpc::ServerContext*, const v1::ListKernelsRequest* request,
                                             v1::ListKernelsResponse* response) {
  return Answer(*request, *response, [&] { return orchestrator_.Kernels(request->node()); });
}

grpc::Status CoordinatorService::ListLinks(grpc::ServerContext*, const v1::ListLinksRequest* request,
                                           v1::ListLinksResponse* response) {
  return Answer(*request, *response, [&] {
    return orchestrator_.Links({request->devices().begin(), request->devices().end()});
  });
}

grpc::Status CoordinatorService::MeasureLinks(grpc::ServerContext* context,
                                              const v1::MeasureLinksRequest* request,
                                              v1::ListLinksResponse* response) {
  return Answer(*request, *response, [&] {
    return orchestrator_.MeasureLinks({request->devices().begin(), request->devices().end()},
                                      [&] { return context->IsCancelled(); });
  });
}

grpc::Status CoordinatorService::ExplainAllReduce(grpc::ServerContext*,
                                                  const v1::ExplainAllReduceRequest* request,
                                                  v1::AllReduceExplanation* response) {
  return Answer(*request, *response, [&] { return orchestrator_.ExplainAllReduce(*request); });
}

grpc::Status CoordinatorService::GetPlan(grpc::ServerContext* context, const v1::GetPlanRequest* request,
                                         v1::PlanReport* response) {
  return Answer(*request, *response, [&] {
    return orchestrator_.PlanOf(request->job_id(), [&] { return context->IsCancelled(); });
  });
}

grpc::Status CoordinatorService::GetTrace(grpc::ServerContext*, const v1::GetTraceRequest* request,
                                          v1::Trace* response) {
  return Answer(*request, *response, [&]() -> absl::StatusOr<v1::Trace> {
    RETURN_IF_ERROR(orchestrator_.journal().Get(request->job_id()).status());
    absl::StatusOr<v1::Trace> trace = store_.GetTrace(request->job_id(), request->step());
    if (absl::IsNotFound(trace.status())) return absl::FailedPreconditionError(trace.status().message());
    return trace;
  });
}

grpc::Status CoordinatorService::ListSteps(grpc::ServerContext*, const v1::ListStepsRequest* request,
                                           v1::ListStepsResponse* response) {
  return Answer(*request, *response, [&]() -> absl::StatusOr<v1::ListStepsResponse> {
    v1::ListStepsResponse all;
    const int limit = static_cast<int>(std::min<uint32_t>(request->limit(), std::numeric_limits<int>::max()));
    ASSIGN_OR_RETURN(auto steps, store_.ListSteps(request->job_id(), request->after_step(), limit));
    ASSIGN_OR_RETURN(auto validations, store_.ListValidations(request->job_id(), request->after_step()));
    std::erase_if(steps,
                  [&](const v1::StepMetrics& step) { return step.at_seconds() < request->since_seconds(); });
    const uint32_t first = steps.empty() ? std::numeric_limits<uint32_t>::max() : steps.front().step();
    std::erase_if(validations,
                  [&](const v1::ValidationMetrics& validation) { return validation.step() < first; });
    Fill(*all.mutable_steps(), steps);
    Fill(*all.mutable_validations(), validations);
    return all;
  });
}

grpc::Status CoordinatorService::ListLogs(grpc::ServerContext*, const v1::ListLogsRequest* request,
                                          v1::ListLogsResponse* response) {
  return Answer(*request, *response, [&]() -> absl::StatusOr<v1::ListLogsResponse> {
    const int limit = request->limit() == 0 ? kDefaultLogLines : static_cast<int>(request->limit());
    ASSIGN_OR_RETURN(auto lines, store_.ListLogs(request->job_id(), limit, request->after_line()));
    std::erase_if(lines,
                  [&](const v1::LogLine& line) { return line.at_seconds() < request->since_seconds(); });
    v1::ListLogsResponse all;
    Fill(*all.mutable_lines(), lines);
    return all;
  });
}

grpc::Status CoordinatorService::ExportCluster(grpc::ServerContext*, const v1::ExportClusterRequest* request,
                                               v1::ClusterSpec* response) {
  return Answer(*request, *response, [&] { return orchestrator_.ExportCluster(); });
}

grpc::Status RegistryService::Register(grpc::ServerContext*, const v1::RegisterRequest* request,
                                       v1::RegisterResponse* response) {
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  absl::StatusOr<v1::RegisterResponse> registered = orchestrator_.Register(*request);
  if (!registered.ok()) return ToGrpc(registered.status());
  *response = *std::move(registered);
  return grpc::Status::OK;
}

grpc::Status RegistryService::Deregister(grpc::ServerContext*, const v1::DeregisterRequest* request,
                                         v1::DeregisterResponse*) {
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  orchestrator_.Deregister(*request);
  return grpc::Status::OK;
}

grpc::Status RegistryService::Renew(grpc::ServerContext*, const v1::RenewRequest* request,
                                    v1::RenewResponse* response) {
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  const absl::StatusOr<absl::Duration> lease = orchestrator_.Renew(*request);
  if (!lease.ok()) return ToGrpc(lease.status());
  response->set_lease_seconds(absl::ToDoubleSeconds(*lease));
  return grpc::Status::OK;
}

}  // namespace medley
