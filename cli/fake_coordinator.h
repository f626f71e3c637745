#pragma once
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// A coordinator that answers with what a test put into it.
class FakeCoordinator final : public v1::Coordinator::Service {
 public:
  FakeCoordinator() { Start("127.0.0.1:0"); }
  ~FakeCoordinator() override { Stop(); }

  const std::string& address() const { return address_; }
  void Stop();
  // Again at the port that it had.
  void Restart() { Start(address_); }

  // How long the newest call that plans, measures or copies may take; none: without end.
  std::optional<absl::Duration> limit();

  // What calls came with, by name.
  std::map<std::string, std::string> Seen();

  v1::Job job;                                   // of every call that answers with one
  std::function<void(v1::Job&)> change_on_look;  // before GetJob answers
  grpc::Status status;                           // of every call
  // The call, by its name in Seen, that comes to no end until nobody waits for it; SIGINT comes meanwhile.
  std::string stands_still;
  std::vector<v1::JobUpdate> updates;  // of WatchJob
  // After this update of this server's life; false: UNAVAILABLE.
  std::function<bool(int)> watch_goes_on;
  std::function<void()> during_backup;  // before BackUp ends
  v1::ListLogsResponse logs;
  v1::ListStepsResponse steps;
  v1::ListAuditResponse audit;
  v1::ListNodesResponse nodes;
  v1::DrainNodeResponse drained;
  v1::ClusterSpec cluster;
  std::atomic<bool> plan_cancelled = false;

  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* reply) override;
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::Job* reply) override;
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        grpc::ServerWriter<v1::ListJobsResponse>* writer) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::Job* reply) override;
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request, v1::Job* reply) override;
  grpc::Status HoldJob(grpc::ServerContext*, const v1::HoldJobRequest* request, v1::Job* reply) override;
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest* request,
                         v1::DeleteJobResponse*) override;
  grpc::Status ForgetNode(grpc::ServerContext*, const v1::ForgetNodeRequest* request,
                          v1::ForgetNodeResponse*) override;
  grpc::Status DrainNode(grpc::ServerContext*, const v1::DrainNodeRequest* request,
                         v1::DrainNodeResponse* reply) override;
  grpc::Status ReplanJob(grpc::ServerContext* context, const v1::ReplanJobRequest* request,
                         v1::ReplanJobResponse* reply) override;
  // Plans until nobody waits for it.
  grpc::Status PlanJob(grpc::ServerContext* context, const v1::PlanJobRequest* request,
                       v1::PlanReport*) override;
  grpc::Status ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*,
                         v1::ListNodesResponse* reply) override;
  grpc::Status ExportCluster(grpc::ServerContext*, const v1::ExportClusterRequest* request,
                             grpc::ServerWriter<v1::ClusterSpec>* writer) override;
  grpc::Status GetPlan(grpc::ServerContext* context, const v1::GetPlanRequest* request,
                       v1::PlanReport* reply) override;
  grpc::Status CheckNodes(grpc::ServerContext*, const v1::CheckNodesRequest* request,
                          v1::CheckNodesResponse*) override;
  grpc::Status BackUp(grpc::ServerContext* context, const v1::BackUpRequest* request,
                      grpc::ServerWriter<v1::BackUpPart>* writer) override;
  grpc::Status MeasureLinks(grpc::ServerContext* context, const v1::MeasureLinksRequest* request,
                            grpc::ServerWriter<v1::ListLinksResponse>*) override;
  grpc::Status ListLinks(grpc::ServerContext* context, const v1::ListLinksRequest* request,
                         grpc::ServerWriter<v1::ListLinksResponse>*) override;
  grpc::Status ListAudit(grpc::ServerContext*, const v1::ListAuditRequest* request,
                         grpc::ServerWriter<v1::ListAuditResponse>* writer) override;
  grpc::Status GetTrace(grpc::ServerContext*, const v1::GetTraceRequest* request, v1::Trace* reply) override;
  grpc::Status ListLogs(grpc::ServerContext* context, const v1::ListLogsRequest* request,
                        v1::ListLogsResponse* reply) override;
  grpc::Status ListSteps(grpc::ServerContext* context, const v1::ListStepsRequest* request,
                         grpc::ServerWriter<v1::ListStepsResponse>* writer) override;
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobUpdate>* writer) override;

 private:
  void Start(const std::string& address);
  void See(const std::string& call, const google::protobuf::Message& request);
  void NoteDeadline(const grpc::ServerContext& context);

  Mutex mutex_;
  std::optional<absl::Duration> limit_;
  std::map<std::string, std::string> seen_;
  std::atomic<int> watches_ = 0;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

v1::Job JobIn(v1::JobState state);

// With the steps from `first` to `last`.
v1::JobUpdate Update(v1::JobState state, uint32_t attempt, uint32_t first, uint32_t last,
                     uint32_t checkpoint);

}  // namespace medley
