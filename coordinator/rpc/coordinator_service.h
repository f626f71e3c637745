#pragma once
#include <atomic>
#include <functional>

#include "absl/time/clock.h"
#include "coordinator/joining/joining.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/rpc/audit.h"
#include "coordinator/rpc/stream_quota.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/coordinator.grpc.pb.h"

namespace medley {

// The wire side of Orchestrator, and nothing else: check, call, encode.
class CoordinatorService final : public v1::Coordinator::Service {
 public:
  // `now`: by which certificates end.
  CoordinatorService(Orchestrator& orchestrator, Store& store, Joining& joining, Audit& audit,
                     std::function<absl::Time()> now = absl::Now)
      : orchestrator_(orchestrator), store_(store), joining_(joining), audit_(audit), now_(std::move(now)) {}

  // Ends the streams and the long calls that are open, so that the server can shut down.
  void Stop() {
    stopping_ = true;
    orchestrator_.StopCalls();
  }

  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest*, v1::SubmitJobResponse*) override;
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        grpc::ServerWriter<v1::ListJobsResponse>*) override;
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::JobUpdate>*) override;
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*, v1::Job*) override;
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest*, v1::Job*) override;
  grpc::Status ReplanJob(grpc::ServerContext*, const v1::ReplanJobRequest*, v1::ReplanJobResponse*) override;
  grpc::Status HoldJob(grpc::ServerContext*, const v1::HoldJobRequest*, v1::Job*) override;
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest*, v1::DeleteJobResponse*) override;
  grpc::Status ForgetNode(grpc::ServerContext*, const v1::ForgetNodeRequest*,
                          v1::ForgetNodeResponse*) override;
  grpc::Status DrainNode(grpc::ServerContext*, const v1::DrainNodeRequest*, v1::DrainNodeResponse*) override;
  grpc::Status UndrainNode(grpc::ServerContext*, const v1::UndrainNodeRequest*,
                           v1::UndrainNodeResponse*) override;
  grpc::Status BackUp(grpc::ServerContext*, const v1::BackUpRequest*,
                      grpc::ServerWriter<v1::BackUpPart>*) override;
  grpc::Status PlanJob(grpc::ServerContext*, const v1::PlanJobRequest*, v1::PlanReport*) override;
  grpc::Status ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*, v1::ListNodesResponse*) override;
  grpc::Status ListKernels(grpc::ServerContext*, const v1::ListKernelsRequest*,
                           v1::ListKernelsResponse*) override;
  grpc::Status CheckNodes(grpc::ServerContext*, const v1::CheckNodesRequest*,
                          v1::CheckNodesResponse*) override;
  grpc::Status GetStacks(grpc::ServerContext*, const v1::GetStacksRequest*, v1::GetStacksResponse*) override;
  grpc::Status ListLinks(grpc::ServerContext*, const v1::ListLinksRequest*,
                         grpc::ServerWriter<v1::ListLinksResponse>*) override;
  grpc::Status MeasureLinks(grpc::ServerContext*, const v1::MeasureLinksRequest*,
                            grpc::ServerWriter<v1::ListLinksResponse>*) override;
  grpc::Status ExplainAllReduce(grpc::ServerContext*, const v1::ExplainAllReduceRequest*,
                                v1::AllReduceExplanation*) override;
  grpc::Status GetPlan(grpc::ServerContext*, const v1::GetPlanRequest*, v1::PlanReport*) override;
  grpc::Status GetTrace(grpc::ServerContext*, const v1::GetTraceRequest*, v1::Trace*) override;
  grpc::Status TraceSteps(grpc::ServerContext*, const v1::TraceStepsRequest*,
                          grpc::ServerWriter<v1::TraceStepsUpdate>*) override;
  grpc::Status ListSteps(grpc::ServerContext*, const v1::ListStepsRequest*,
                         grpc::ServerWriter<v1::ListStepsResponse>*) override;
  grpc::Status ListLogs(grpc::ServerContext*, const v1::ListLogsRequest*, v1::ListLogsResponse*) override;
  grpc::Status ExportCluster(grpc::ServerContext*, const v1::ExportClusterRequest*,
                             grpc::ServerWriter<v1::ClusterSpec>*) override;
  grpc::Status ListAudit(grpc::ServerContext*, const v1::ListAuditRequest*,
                         grpc::ServerWriter<v1::ListAuditResponse>*) override;
  grpc::Status CreateJoinToken(grpc::ServerContext*, const v1::CreateJoinTokenRequest*,
                               v1::CreateJoinTokenResponse*) override;
  grpc::Status ListJoinTokens(grpc::ServerContext*, const v1::ListJoinTokensRequest*,
                              grpc::ServerWriter<v1::ListJoinTokensResponse>*) override;
  grpc::Status RevokeJoinToken(grpc::ServerContext*, const v1::RevokeJoinTokenRequest*,
                               v1::RevokeJoinTokenResponse*) override;

 private:
  // Whether a stream to who may be answered until then goes on. Unavailable: not here, or not by this connection's certificate; who
  // calls again shows the one of then.
  absl::Status MayGoOn(absl::Time caller_until) const;

  Orchestrator& orchestrator_;
  Store& store_;
  Joining& joining_;
  Audit& audit_;
  StreamQuota streams_;
  const std::function<absl::Time()> now_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> backups_ = 0;
};

}  // namespace medley
