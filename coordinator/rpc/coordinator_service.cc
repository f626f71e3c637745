#include "coordinator/rpc/coordinator_service.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/wire/job_life_codec.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/log/request_id.h"
#include "runtime/wire/grpc_request.h"
#include "runtime/wire/grpc_status.h"
#include "runtime/wire/validate.h"

namespace medley {
namespace {

constexpr int kDefaultJobs = 100;
constexpr int kDefaultLogLines = 1000;
constexpr int kDefaultAuditRecords = 1000;
// A part of an answer that has so many bytes is sent.
constexpr size_t kPartBytes = size_t{1} << 20;
constexpr size_t kStepsOfAnUpdate = 4096;
// How often a stream without news looks whether its reader is still there.
constexpr absl::Duration kLookAroundEvery = absl::Milliseconds(250);

// `source`: as ListLogsRequest has it.
bool IsOfSource(const v1::LogLine& line, const std::string& source) {
  return source.empty() || line.source() == source || absl::StartsWith(line.source(), source + "/");
}

// Checks the request, calls, stores the answer, and writes down who changed something.
template <typename Request, typename Response, typename Call>
grpc::Status Answer(Audit& audit, grpc::ServerContext& context, const Request& request, Response& response,
                    Call call) {
  const RequestScope scope(TakeRequestId(context));
  absl::Status status = ValidateMessage(request);
  if (status.ok()) {
    absl::StatusOr<Response> result = call();
    status = result.status();
    if (result.ok()) response = *std::move(result);
  }
  audit.Write(context, request, response, ToGrpc(status));
  return ToGrpc(status);
}

// An answer on its way, a part at a time.
template <typename Part>
class Parts {
 public:
  explicit Parts(grpc::ServerWriter<Part>& writer) : writer_(writer) {}

  // `add`, as in &Part::add_links, makes room for the message. False: nobody reads any more.
  template <typename Message>
  bool Add(Message* (Part::*add)(), const Message& message) {
    *(part_.*add)() = message;
    bytes_ += message.ByteSizeLong();
    return bytes_ < kPartBytes || Send();
  }
  Part& part() { return part_; }
  bool Send() {
    const bool is_read = writer_.Write(part_);
    part_.Clear();
    bytes_ = 0;
    return is_read;
  }

 private:
  grpc::ServerWriter<Part>& writer_;
  Part part_;
  size_t bytes_ = 0;
};

// Likewise, where `fill` sends the answer but for its end.
template <typename Request, typename Part, typename Fill>
grpc::Status AnswerInParts(Audit& audit, grpc::ServerContext& context, const Request& request,
                           grpc::ServerWriter<Part>& writer, Fill fill) {
  const RequestScope scope(TakeRequestId(context));
  absl::Status status = ValidateMessage(request);
  if (status.ok()) {
    Parts<Part> parts(writer);
    status = fill(parts);
    if (status.ok()) parts.Send();
  }
  audit.Write(context, request, Part(), ToGrpc(status));
  return ToGrpc(status);
}

void AddLinks(const Orchestrator::KnownLinks& links, Parts<v1::ListLinksResponse>& parts) {
  for (const ClusterDeviceLocation& device : links.devices) parts.part().add_devices(FullName(device));
  links.table.ForEachAmong(links.devices, [&](const v1::LinkProfile& link) {
    return parts.Add(&v1::ListLinksResponse::add_links, link);
  });
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

grpc::Status CoordinatorService::SubmitJob(grpc::ServerContext* context, const v1::SubmitJobRequest* request,
                                           v1::SubmitJobResponse* response) {
  return Answer(audit_, *context, *request, *response->mutable_job(),
                [&] { return orchestrator_.Submit(*request); });
}

grpc::Status CoordinatorService::GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                                        v1::Job* response) {
  return Answer(audit_, *context, *request, *response,
                [&] { return orchestrator_.journal().Get(request->job_id()); });
}

grpc::Status CoordinatorService::ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                                          grpc::ServerWriter<v1::ListJobsResponse>* writer) {
  return AnswerInParts(
      audit_, *context, *request, *writer, [&](Parts<v1::ListJobsResponse>& parts) -> absl::Status {
        const int limit = request->limit() == 0 ? kDefaultJobs : static_cast<int>(request->limit());
        return orchestrator_.journal().List(
            limit, [&](const v1::Job& job) { return parts.Add(&v1::ListJobsResponse::add_jobs, job); });
      });
}

absl::Status CoordinatorService::MayGoOn(absl::Time caller_until) const {
  if (stopping_) return absl::UnavailableError("the coordinator is stopping");
  if (now_() <= caller_until) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the certificate that was shown was in force until ",
                                             absl::FormatTime(caller_until, absl::UTCTimeZone())));
}

grpc::Status CoordinatorService::WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                                          grpc::ServerWriter<v1::JobUpdate>* writer) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  const absl::StatusOr<StreamQuota::Slot> slot = streams_.Open(ClientOf(*context));
  if (!slot.ok()) return ToGrpc(slot.status());
  JobJournal& journal = orchestrator_.journal();
  uint32_t after_step = request->after_step(), after_validation = request->after_step();
  uint64_t seen = 0;
  uint32_t attempt = 0, first_step = 0;  // that the reader has heard of
  const absl::Time until = CallerUntil(*context);
  while (!context->IsCancelled()) {
    if (const absl::Status may = MayGoOn(until); !may.ok()) return ToGrpc(may);
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
    for (bool more = true; more;) {
      const auto steps = store_.NextSteps(request->job_id(), after_step, kStepsOfAnUpdate);
      auto validations = store_.ListValidations(request->job_id(), after_validation);
      if (!steps.ok() || !validations.ok()) return ToGrpc(steps.ok() ? validations.status() : steps.status());
      if (!steps->empty()) after_step = steps->back().step();
      more = steps->size() == kStepsOfAnUpdate;
      // A validation comes with its step.
      if (more)
        std::erase_if(*validations, [&](const v1::ValidationMetrics& v) { return v.step() > after_step; });
      if (!validations->empty()) after_validation = validations->back().step();
      v1::JobUpdate update;
      *update.mutable_job() = *job;
      Fill(*update.mutable_steps(), *steps);
      Fill(*update.mutable_validations(), *validations);
      if (!writer->Write(update)) return grpc::Status::OK;
    }
    if (HasEnded(*job)) return grpc::Status::OK;
  }
  return grpc::Status::CANCELLED;
}

grpc::Status CoordinatorService::CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                                           v1::Job* response) {
  return Answer(audit_, *context, *request, *response, [&] { return orchestrator_.Cancel(*request); });
}

grpc::Status CoordinatorService::ResumeJob(grpc::ServerContext* context, const v1::ResumeJobRequest* request,
                                           v1::Job* response) {
  return Answer(audit_, *context, *request, *response,
                [&] { return orchestrator_.Resume(request->job_id()); });
}

grpc::Status CoordinatorService::ReplanJob(grpc::ServerContext* context, const v1::ReplanJobRequest* request,
                                           v1::ReplanJobResponse* response) {
  return Answer(audit_, *context, *request, *response,
                [&] { return orchestrator_.Replan(*request, [&] { return context->IsCancelled(); }); });
}

grpc::Status CoordinatorService::HoldJob(grpc::ServerContext* context, const v1::HoldJobRequest* request,
                                         v1::Job* response) {
  return Answer(audit_, *context, *request, *response, [&] { return orchestrator_.Hold(*request); });
}

grpc::Status CoordinatorService::DeleteJob(grpc::ServerContext* context, const v1::DeleteJobRequest* request,
                                           v1::DeleteJobResponse* response) {
  return Answer(audit_, *context, *request, *response, [&]() -> absl::StatusOr<v1::DeleteJobResponse> {
    RETURN_IF_ERROR(orchestrator_.Delete(request->job_id()));
    return v1::DeleteJobResponse();
  });
}

grpc::Status CoordinatorService::ForgetNode(grpc::ServerContext* context,
                                            const v1::ForgetNodeRequest* request,
                                            v1::ForgetNodeResponse* response) {
  return Answer(audit_, *context, *request, *response, [&]() -> absl::StatusOr<v1::ForgetNodeResponse> {
    RETURN_IF_ERROR(orchestrator_.ForgetNode(request->node()));
    return v1::ForgetNodeResponse();
  });
}

grpc::Status CoordinatorService::DrainNode(grpc::ServerContext* context, const v1::DrainNodeRequest* request,
                                           v1::DrainNodeResponse* response) {
  return Answer(audit_, *context, *request, *response, [&] { return orchestrator_.DrainNode(*request); });
}

grpc::Status CoordinatorService::UndrainNode(grpc::ServerContext* context,
                                             const v1::UndrainNodeRequest* request,
                                             v1::UndrainNodeResponse* response) {
  return Answer(audit_, *context, *request, *response, [&]() -> absl::StatusOr<v1::UndrainNodeResponse> {
    RETURN_IF_ERROR(orchestrator_.UndrainNode(request->node()));
    return v1::UndrainNodeResponse();
  });
}

grpc::Status CoordinatorService::BackUp(grpc::ServerContext* context, const v1::BackUpRequest* request,
                                        grpc::ServerWriter<v1::BackUpPart>* writer) {
  return AnswerInParts(
      audit_, *context, *request, *writer, [&](Parts<v1::BackUpPart>& parts) -> absl::Status {
        const std::string file = absl::StrCat(store_.directory(), "/backup-", ++backups_, ".partial");
        std::remove(file.c_str());  // of a coordinator that was killed
        const absl::Status written = store_.BackUp(file);
        std::ifstream bytes(file, std::ios::binary);
        std::remove(file.c_str());  // it lives on until it is read
        RETURN_IF_ERROR(written);
        std::string& part = *parts.part().mutable_bytes();
        for (part.resize(kPartBytes); bytes.read(part.data(), kPartBytes);
             parts.part().mutable_bytes()->resize(kPartBytes)) {
          if (!parts.Send()) return absl::OkStatus();
        }
        parts.part().mutable_bytes()->resize(static_cast<size_t>(bytes.gcount()));
        return bytes.eof() ? absl::OkStatus() : absl::UnavailableError(absl::StrCat(file, " cannot be read"));
      });
}

grpc::Status CoordinatorService::PlanJob(grpc::ServerContext* context, const v1::PlanJobRequest* request,
                                         v1::PlanReport* response) {
  return Answer(audit_, *context, *request, *response,
                [&] { return orchestrator_.Plan(*request, [&] { return context->IsCancelled(); }); });
}

grpc::Status CoordinatorService::ListNodes(grpc::ServerContext* context, const v1::ListNodesRequest*,
                                           v1::ListNodesResponse* response) {
  const RequestScope scope(TakeRequestId(*context));
  Fill(*response->mutable_nodes(), orchestrator_.Nodes());
  const absl::StatusOr<std::vector<v1::DeviceProfile>> profiles = orchestrator_.Profiles();
  if (!profiles.ok()) return ToGrpc(profiles.status());
  Fill(*response->mutable_profiles(), *profiles);
  return grpc::Status::OK;
}

grpc::Status CoordinatorService::ListKernels(grpc::ServerContext* context,
                                             const v1::ListKernelsRequest* request,
                                             v1::ListKernelsResponse* response) {
  return Answer(audit_, *context, *request, *response,
                [&] { return orchestrator_.Kernels(request->node()); });
}

grpc::Status CoordinatorService::CheckNodes(grpc::ServerContext* context,
                                            const v1::CheckNodesRequest* request,
                                            v1::CheckNodesResponse* response) {
  return Answer(audit_, *context, *request, *response, [&] { return orchestrator_.CheckNodes(*request); });
}

grpc::Status CoordinatorService::GetStacks(grpc::ServerContext* context, const v1::GetStacksRequest* request,
                                           v1::GetStacksResponse* response) {
  return Answer(audit_, *context, *request, *response,
                [&] { return orchestrator_.Stacks(request->job_id()); });
}

grpc::Status CoordinatorService::ListLinks(grpc::ServerContext* context, const v1::ListLinksRequest* request,
                                           grpc::ServerWriter<v1::ListLinksResponse>* writer) {
  return AnswerInParts(
      audit_, *context, *request, *writer, [&](Parts<v1::ListLinksResponse>& parts) -> absl::Status {
        ASSIGN_OR_RETURN(const Orchestrator::KnownLinks links,
                         orchestrator_.Links({request->devices().begin(), request->devices().end()},
                                             request->message_protection()));
        AddLinks(links, parts);
        return absl::OkStatus();
      });
}

grpc::Status CoordinatorService::MeasureLinks(grpc::ServerContext* context,
                                              const v1::MeasureLinksRequest* request,
                                              grpc::ServerWriter<v1::ListLinksResponse>* writer) {
  return AnswerInParts(
      audit_, *context, *request, *writer, [&](Parts<v1::ListLinksResponse>& parts) -> absl::Status {
        ASSIGN_OR_RETURN(const Orchestrator::KnownLinks links,
                         orchestrator_.MeasureLinks({request->devices().begin(), request->devices().end()},
                                                    request->message_protection(),
                                                    [&] { return context->IsCancelled(); }));
        AddLinks(links, parts);
        return absl::OkStatus();
      });
}

grpc::Status CoordinatorService::ExplainAllReduce(grpc::ServerContext* context,
                                                  const v1::ExplainAllReduceRequest* request,
                                                  v1::AllReduceExplanation* response) {
  return Answer(audit_, *context, *request, *response,
                [&] { return orchestrator_.ExplainAllReduce(*request); });
}

grpc::Status CoordinatorService::GetPlan(grpc::ServerContext* context, const v1::GetPlanRequest* request,
                                         v1::PlanReport* response) {
  return Answer(audit_, *context, *request, *response,
                [&] { return orchestrator_.PlanOf(*request, [&] { return context->IsCancelled(); }); });
}

grpc::Status CoordinatorService::GetTrace(grpc::ServerContext* context, const v1::GetTraceRequest* request,
                                          v1::Trace* response) {
  return Answer(audit_, *context, *request, *response, [&]() -> absl::StatusOr<v1::Trace> {
    RETURN_IF_ERROR(orchestrator_.journal().Get(request->job_id()).status());
    absl::StatusOr<v1::Trace> trace = store_.GetTrace(request->job_id(), request->step());
    if (absl::IsNotFound(trace.status())) return absl::FailedPreconditionError(trace.status().message());
    return trace;
  });
}

grpc::Status CoordinatorService::TraceSteps(grpc::ServerContext* context,
                                            const v1::TraceStepsRequest* request,
                                            grpc::ServerWriter<v1::TraceStepsUpdate>* writer) {
  const RequestScope scope(TakeRequestId(*context));
  if (const absl::Status valid = ValidateMessage(*request); !valid.ok()) return ToGrpc(valid);
  const absl::StatusOr<StreamQuota::Slot> slot = streams_.Open(ClientOf(*context));
  if (!slot.ok()) return ToGrpc(slot.status());
  const absl::Time until = CallerUntil(*context);
  const absl::Status status = orchestrator_.TraceSteps(
      *request, [&](const v1::TraceStepsUpdate& update) { return writer->Write(update); },
      [&] { return context->IsCancelled() || !MayGoOn(until).ok(); });
  if (const absl::Status may = MayGoOn(until); !status.ok() && !may.ok()) return ToGrpc(may);
  return ToGrpc(status);
}

grpc::Status CoordinatorService::ListSteps(grpc::ServerContext* context, const v1::ListStepsRequest* request,
                                           grpc::ServerWriter<v1::ListStepsResponse>* writer) {
  return AnswerInParts(
      audit_, *context, *request, *writer, [&](Parts<v1::ListStepsResponse>& parts) -> absl::Status {
        const std::string& id = request->job_id();
        const int limit = static_cast<int>(request->limit());
        ASSIGN_OR_RETURN(const auto validations, store_.ListValidations(id, request->after_step()));
        uint32_t first = std::numeric_limits<uint32_t>::max(), after = request->after_step();
        for (bool more = true; more;) {
          ASSIGN_OR_RETURN(const auto steps, limit > 0 ? store_.ListSteps(id, after, limit)
                                                       : store_.NextSteps(id, after, kStepsOfAnUpdate));
          more = limit == 0 && steps.size() == kStepsOfAnUpdate;
          if (!steps.empty()) after = steps.back().step();
          for (const v1::StepMetrics& step : steps) {
            if (step.at_seconds() < request->since_seconds()) continue;
            first = std::min(first, step.step());
            if (!parts.Add(&v1::ListStepsResponse::add_steps, step)) return absl::OkStatus();
          }
        }
        for (const v1::ValidationMetrics& validation : validations) {
          if (validation.step() >= first && !parts.Add(&v1::ListStepsResponse::add_validations, validation))
            break;
        }
        return absl::OkStatus();
      });
}

grpc::Status CoordinatorService::ListLogs(grpc::ServerContext* context, const v1::ListLogsRequest* request,
                                          v1::ListLogsResponse* response) {
  return Answer(audit_, *context, *request, *response, [&]() -> absl::StatusOr<v1::ListLogsResponse> {
    const size_t limit = request->limit() == 0 ? kDefaultLogLines : request->limit();
    // Of one source, the newest may be far back.
    ASSIGN_OR_RETURN(auto lines, store_.ListLogs(request->job_id(),
                                                 request->source().empty() ? static_cast<int>(limit)
                                                                           : std::numeric_limits<int>::max(),
                                                 request->after_line()));
    std::erase_if(lines, [&](const v1::LogLine& line) {
      return line.at_seconds() < request->since_seconds() || !IsOfSource(line, request->source());
    });
    if (lines.size() > limit) lines.erase(lines.begin(), lines.end() - static_cast<int64_t>(limit));
    v1::ListLogsResponse all;
    Fill(*all.mutable_lines(), lines);
    return all;
  });
}

grpc::Status CoordinatorService::ExportCluster(grpc::ServerContext* context,
                                               const v1::ExportClusterRequest* request,
                                               grpc::ServerWriter<v1::ClusterSpec>* writer) {
  return AnswerInParts(audit_, *context, *request, *writer,
                       [&](Parts<v1::ClusterSpec>& parts) -> absl::Status {
                         ASSIGN_OR_RETURN(const v1::ClusterSpec cluster, orchestrator_.ExportCluster());
                         for (const v1::Node& node : cluster.nodes())
                           parts.Add(&v1::ClusterSpec::add_nodes, node);
                         for (const v1::DeviceProfile& profile : cluster.profiles())
                           parts.Add(&v1::ClusterSpec::add_profiles, profile);
                         for (const v1::HostSlowdown& slowdown : cluster.slowdowns())
                           parts.Add(&v1::ClusterSpec::add_slowdowns, slowdown);
                         for (const v1::LiveError& error : cluster.live_errors())
                           parts.Add(&v1::ClusterSpec::add_live_errors, error);
                         for (const v1::LinkClass& link : cluster.link_classes())
                           parts.Add(&v1::ClusterSpec::add_link_classes, link);
                         for (const v1::LinkProfile& link : cluster.links())
                           if (!parts.Add(&v1::ClusterSpec::add_links, link)) break;
                         return absl::OkStatus();
                       });
}

grpc::Status CoordinatorService::ListAudit(grpc::ServerContext* context, const v1::ListAuditRequest* request,
                                           grpc::ServerWriter<v1::ListAuditResponse>* writer) {
  return AnswerInParts(
      audit_, *context, *request, *writer, [&](Parts<v1::ListAuditResponse>& parts) -> absl::Status {
        const int limit = request->limit() == 0 ? kDefaultAuditRecords : static_cast<int>(request->limit());
        ASSIGN_OR_RETURN(const std::vector<v1::AuditRecord> records, store_.ListAudit(limit));
        for (const v1::AuditRecord& record : records) {
          if (record.at_seconds() >= request->since_seconds() &&
              !parts.Add(&v1::ListAuditResponse::add_records, record))
            break;
        }
        return absl::OkStatus();
      });
}

grpc::Status CoordinatorService::CreateJoinToken(grpc::ServerContext* context,
                                                 const v1::CreateJoinTokenRequest* request,
                                                 v1::CreateJoinTokenResponse* response) {
  return Answer(audit_, *context, *request, *response,
                [&] { return joining_.CreateToken(*request, CallerOf(*context)); });
}

grpc::Status CoordinatorService::ListJoinTokens(grpc::ServerContext* context,
                                                const v1::ListJoinTokensRequest* request,
                                                grpc::ServerWriter<v1::ListJoinTokensResponse>* writer) {
  return AnswerInParts(audit_, *context, *request, *writer,
                       [&](Parts<v1::ListJoinTokensResponse>& parts) -> absl::Status {
                         ASSIGN_OR_RETURN(const std::vector<v1::JoinToken> tokens, joining_.ListTokens());
                         for (const v1::JoinToken& token : tokens) {
                           if (!parts.Add(&v1::ListJoinTokensResponse::add_tokens, token)) break;
                         }
                         return absl::OkStatus();
                       });
}

grpc::Status CoordinatorService::RevokeJoinToken(grpc::ServerContext* context,
                                                 const v1::RevokeJoinTokenRequest* request,
                                                 v1::RevokeJoinTokenResponse* response) {
  return Answer(audit_, *context, *request, *response, [&]() -> absl::StatusOr<v1::RevokeJoinTokenResponse> {
    RETURN_IF_ERROR(joining_.RevokeToken(request->token_id()));
    return v1::RevokeJoinTokenResponse();
  });
}

}  // namespace medley
