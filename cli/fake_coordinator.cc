#include "cli/fake_coordinator.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace medley {
namespace {

grpc::Status StandStill(const grpc::ServerContext& context) {
  kill(getpid(), SIGINT);
  while (!context.IsCancelled()) std::this_thread::yield();
  return grpc::Status::CANCELLED;
}

}  // namespace

void FakeCoordinator::Stop() {
  if (!server_) return;
  server_->Shutdown(gpr_inf_past(GPR_CLOCK_REALTIME));
  server_.reset();
}

std::optional<absl::Duration> FakeCoordinator::limit() {
  MutexLock lock(mutex_);
  return limit_;
}

std::map<std::string, std::string> FakeCoordinator::Seen() {
  MutexLock lock(mutex_);
  return seen_;
}

grpc::Status FakeCoordinator::SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                                        v1::SubmitJobResponse* reply) {
  See("submit", *request);
  *reply->mutable_job() = job;
  return status;
}

grpc::Status FakeCoordinator::GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                                     v1::Job* reply) {
  See("get", *request);
  if (stands_still == "get") return StandStill(*context);
  MutexLock lock(mutex_);
  if (change_on_look) change_on_look(job);
  *reply = job;
  return status;
}

grpc::Status FakeCoordinator::ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                                       grpc::ServerWriter<v1::ListJobsResponse>* writer) {
  See("jobs", *request);
  if (stands_still == "jobs") return StandStill(*context);
  for (int i = 0; i < 100; ++i) {
    v1::ListJobsResponse part;
    *part.add_jobs() = job;
    writer->Write(part);
  }
  return status;
}

grpc::Status FakeCoordinator::CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                                        v1::Job* reply) {
  See("cancel", *request);
  if (stands_still == "cancel") return StandStill(*context);
  *reply = job;
  return status;
}

grpc::Status FakeCoordinator::ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                                        v1::Job* reply) {
  See("resume", *request);
  *reply = job;
  return status;
}

grpc::Status FakeCoordinator::HoldJob(grpc::ServerContext*, const v1::HoldJobRequest* request,
                                      v1::Job* reply) {
  See("hold", *request);
  *reply = job;
  return status;
}

grpc::Status FakeCoordinator::DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest* request,
                                        v1::DeleteJobResponse*) {
  See("delete", *request);
  return status;
}

grpc::Status FakeCoordinator::ForgetNode(grpc::ServerContext*, const v1::ForgetNodeRequest* request,
                                         v1::ForgetNodeResponse*) {
  See("forget", *request);
  return status;
}

grpc::Status FakeCoordinator::DrainNode(grpc::ServerContext*, const v1::DrainNodeRequest* request,
                                        v1::DrainNodeResponse* reply) {
  See("drain", *request);
  *reply = drained;
  return status;
}

grpc::Status FakeCoordinator::ReplanJob(grpc::ServerContext* context, const v1::ReplanJobRequest* request,
                                        v1::ReplanJobResponse* reply) {
  See("replan", *request);
  NoteDeadline(*context);
  *reply->mutable_job() = job;
  reply->set_decision("1.5 s now, 1.2 s then");
  reply->set_replans(request->force());
  return status;
}

grpc::Status FakeCoordinator::PlanJob(grpc::ServerContext* context, const v1::PlanJobRequest* request,
                                      v1::PlanReport*) {
  See("plan", *request);
  NoteDeadline(*context);
  if (!status.ok()) return status;
  const grpc::Status cancelled = StandStill(*context);
  plan_cancelled = true;
  return cancelled;
}

grpc::Status FakeCoordinator::ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*,
                                        v1::ListNodesResponse* reply) {
  *reply = nodes;
  return status;
}

grpc::Status FakeCoordinator::ExportCluster(grpc::ServerContext*, const v1::ExportClusterRequest* request,
                                            grpc::ServerWriter<v1::ClusterSpec>* writer) {
  See("cluster", *request);
  if (status.ok()) writer->Write(cluster);
  return status;
}

grpc::Status FakeCoordinator::GetPlan(grpc::ServerContext* context, const v1::GetPlanRequest* request,
                                      v1::PlanReport* reply) {
  See("explain", *request);
  NoteDeadline(*context);
  reply->set_description("1 route");
  if (request->with_predicted_step()) reply->mutable_predicted_step()->add_lanes()->set_kind("a <kind>");
  return status;
}

grpc::Status FakeCoordinator::CheckNodes(grpc::ServerContext*, const v1::CheckNodesRequest* request,
                                         v1::CheckNodesResponse*) {
  See("check", *request);
  return status;
}

grpc::Status FakeCoordinator::BackUp(grpc::ServerContext* context, const v1::BackUpRequest* request,
                                     grpc::ServerWriter<v1::BackUpPart>* writer) {
  See("backup", *request);
  NoteDeadline(*context);
  v1::BackUpPart part;
  part.set_bytes("a store");
  writer->Write(part);
  if (stands_still == "backup") return StandStill(*context);
  if (during_backup) during_backup();
  return status;
}

grpc::Status FakeCoordinator::MeasureLinks(grpc::ServerContext* context,
                                           const v1::MeasureLinksRequest* request,
                                           grpc::ServerWriter<v1::ListLinksResponse>*) {
  See("measure", *request);
  NoteDeadline(*context);
  return status;
}

grpc::Status FakeCoordinator::ListLinks(grpc::ServerContext* context, const v1::ListLinksRequest* request,
                                        grpc::ServerWriter<v1::ListLinksResponse>*) {
  See("links", *request);
  NoteDeadline(*context);
  return status;
}

grpc::Status FakeCoordinator::ListAudit(grpc::ServerContext*, const v1::ListAuditRequest* request,
                                        grpc::ServerWriter<v1::ListAuditResponse>* writer) {
  See("audit", *request);
  writer->Write(audit);
  return status;
}

grpc::Status FakeCoordinator::GetTrace(grpc::ServerContext*, const v1::GetTraceRequest* request,
                                       v1::Trace* reply) {
  See("trace", *request);
  reply->set_job_id(request->job_id());
  reply->set_step(request->step());
  return status;
}

grpc::Status FakeCoordinator::ListLogs(grpc::ServerContext* context, const v1::ListLogsRequest* request,
                                       v1::ListLogsResponse* reply) {
  See("logs", *request);
  if (stands_still == "logs") return StandStill(*context);
  for (const v1::LogLine& line : logs.lines()) {
    if (line.number() > request->after_line()) *reply->add_lines() = line;
  }
  return status;
}

grpc::Status FakeCoordinator::ListSteps(grpc::ServerContext* context, const v1::ListStepsRequest* request,
                                        grpc::ServerWriter<v1::ListStepsResponse>* writer) {
  See("steps", *request);
  if (stands_still == "steps") return StandStill(*context);
  for (const v1::StepMetrics& step : steps.steps()) {
    v1::ListStepsResponse part;
    *part.add_steps() = step;
    writer->Write(part);
  }
  v1::ListStepsResponse last;
  *last.mutable_validations() = steps.validations();
  writer->Write(last);
  return status;
}

grpc::Status FakeCoordinator::WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                                       grpc::ServerWriter<v1::JobUpdate>* writer) {
  See(absl::StrCat("watch ", ++watches_), *request);
  if (!status.ok()) return status;
  for (size_t i = 0; i < updates.size(); ++i) {
    v1::JobUpdate update = updates[i];
    update.clear_steps();
    for (const v1::StepMetrics& step : updates[i].steps()) {
      if (step.step() > request->after_step() || step.attempt() > 1) *update.add_steps() = step;
    }
    writer->Write(update);
    if (watch_goes_on && !watch_goes_on(static_cast<int>(i))) {
      return {grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping"};
    }
  }
  return grpc::Status::OK;
}

void FakeCoordinator::Start(const std::string& address) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  REQUIRE(server_ != nullptr);
  address_ = absl::StrCat("127.0.0.1:", port);
}

void FakeCoordinator::See(const std::string& call, const google::protobuf::Message& request) {
  MutexLock lock(mutex_);
  seen_[call] = request.ShortDebugString();
}

void FakeCoordinator::NoteDeadline(const grpc::ServerContext& context) {
  MutexLock lock(mutex_);
  limit_.reset();
  if (context.deadline() != std::chrono::system_clock::time_point::max())
    limit_ = absl::FromChrono(context.deadline()) - absl::Now();
}

v1::Job JobIn(v1::JobState state) {
  v1::Job job;
  job.set_id("bible-1");
  job.set_state(state);
  job.mutable_spec()->set_name("bible");
  job.mutable_spec()->set_steps(100);
  return job;
}

v1::JobUpdate Update(v1::JobState state, uint32_t attempt, uint32_t first, uint32_t last,
                     uint32_t checkpoint) {
  v1::JobUpdate update;
  *update.mutable_job() = JobIn(state);
  update.mutable_job()->set_attempt(attempt);
  update.mutable_job()->set_checkpoint_step(checkpoint);
  for (uint32_t i = first; i <= last; ++i) {
    v1::StepMetrics& step = *update.add_steps();
    step.set_step(i);
    step.set_attempt(attempt);
    step.set_loss(i);
    *update.mutable_job()->mutable_last_step() = step;
  }
  return update;
}

}  // namespace medley
