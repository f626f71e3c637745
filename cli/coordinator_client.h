#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/medley/v1/config.pb.h"
#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// Ends calls that are under way or yet to come; Cancel from any thread, once or more. Outlives the calls it
// is given to.
class CallHandle {
 public:
  CallHandle();
  ~CallHandle();
  void Cancel();
  bool cancelled() const;

 private:
  friend class CoordinatorClient;
  struct State;
  std::shared_ptr<State> state_;
};

// How long a call may take that neither plans, measures nor copies.
inline constexpr absl::Duration kUsualTimeout = absl::Seconds(10);

// The coordinator over gRPC, never through a proxy. Every call ends within its timeout, or says that it takes its time. One thread,
// CallHandle excepted. Errors: the coordinator's own; Unavailable "no coordinator at ADDRESS: ..." if it
// cannot be reached; DeadlineExceeded; Cancelled, by a handle. An error that the coordinator answered with has the id of its request as payload
// kRequestIdKey (runtime/log/request_id.h).
class CoordinatorClient {
 public:
  // A `timeout` that is given, for a call, also limits those that take their time: to ten times as much, and five minutes at least.
  // Without one, calls have kUsualTimeout, and those end when they have ended. Without `tls` in the clear.
  CoordinatorClient(const std::string& address, std::optional<absl::Duration> timeout,
                    const std::optional<v1::TlsConfig>& tls = std::nullopt);
  ~CoordinatorClient();

  const std::string& address() const;

  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request);
  absl::StatusOr<v1::Job> GetJob(const std::string& job_id, CallHandle* handle = nullptr);
  // The newest `limit`; 0: 100.
  absl::StatusOr<v1::ListJobsResponse> ListJobs(uint32_t limit, CallHandle* handle = nullptr);
  absl::StatusOr<v1::Job> Cancel(const v1::CancelJobRequest& request, CallHandle& handle);
  absl::StatusOr<v1::Job> Resume(const std::string& job_id);
  // Takes its time, as PlanJob.
  absl::StatusOr<v1::ReplanJobResponse> Replan(const v1::ReplanJobRequest& request, CallHandle& handle);
  absl::StatusOr<v1::Job> Hold(const v1::HoldJobRequest& request);
  absl::Status Delete(const std::string& job_id);
  absl::Status ForgetNode(const std::string& node);
  absl::StatusOr<v1::DrainNodeResponse> DrainNode(const v1::DrainNodeRequest& request);
  absl::Status UndrainNode(const std::string& node);
  // Calls `take` with the parts of a backup, one after the other, until it says false. Takes its time.
  absl::Status BackUp(CallHandle& handle, const std::function<bool(const std::string& bytes)>& take);
  // The first call for a plan takes its time.
  absl::StatusOr<v1::PlanReport> GetPlan(const v1::GetPlanRequest& request, CallHandle& handle);
  // Takes its time: profiles what is missing, and plans for the request's time_limit_seconds, which a timeout leaves it.
  absl::StatusOr<v1::PlanReport> PlanJob(const v1::PlanJobRequest& request, CallHandle& handle);
  absl::StatusOr<v1::ListNodesResponse> ListNodes();
  // The kernels of `node`, or of all live nodes if it is empty. May take ten times the timeout, and five minutes at
  // least, as the next two.
  absl::StatusOr<v1::ListKernelsResponse> ListKernels(const std::string& node, CallHandle& handle);
  absl::StatusOr<v1::CheckNodesResponse> CheckNodes(const v1::CheckNodesRequest& request);
  absl::StatusOr<v1::GetStacksResponse> GetStacks(const std::string& job_id);
  // Between `devices`, or all that there are if it is empty. `protection`: as of ListLinksRequest.
  absl::StatusOr<v1::ListLinksResponse> ListLinks(
      const std::vector<std::string>& devices,
      v1::MessageProtection protection = v1::MESSAGE_PROTECTION_UNSPECIFIED);
  // The same, measured anew. Takes its time, seconds a link; a timeout leaves it an hour at least.
  absl::StatusOr<v1::ListLinksResponse> MeasureLinks(const std::vector<std::string>& devices,
                                                     v1::MessageProtection protection, CallHandle& handle);
  absl::StatusOr<v1::AllReduceExplanation> ExplainAllReduce(const std::vector<std::string>& devices,
                                                            uint64_t bytes);
  // The trace of `step`; 0: of the newest that was traced.
  absl::StatusOr<v1::Trace> GetTrace(const std::string& job_id, uint32_t step);
  // Calls `take` with each update until the last; however long steps take. Cancelled: `handle` was, or the job.
  absl::Status TraceSteps(const v1::TraceStepsRequest& request, CallHandle& handle,
                          const std::function<void(const v1::TraceStepsUpdate&)>& take);
  absl::StatusOr<v1::ListStepsResponse> ListSteps(const v1::ListStepsRequest& request,
                                                  CallHandle* handle = nullptr);
  absl::StatusOr<v1::ListLogsResponse> ListLogs(const v1::ListLogsRequest& request,
                                                CallHandle* handle = nullptr);
  absl::StatusOr<v1::ClusterSpec> ExportCluster();
  absl::StatusOr<v1::ListAuditResponse> ListAudit(const v1::ListAuditRequest& request);
  absl::StatusOr<v1::CreateJoinTokenResponse> CreateJoinToken(const v1::CreateJoinTokenRequest& request);
  absl::StatusOr<v1::ListJoinTokensResponse> ListJoinTokens();
  absl::Status RevokeJoinToken(const std::string& id);

  // Calls `on_update` with every update of a job, those of steps after `after_step`, until the coordinator
  // ends the stream (OK: the job has ended), an hour has passed (DeadlineExceeded) or `handle` is cancelled
  // (Cancelled).
  absl::Status Watch(const std::string& job_id, uint32_t after_step, CallHandle& handle,
                     const std::function<void(const v1::JobUpdate&)>& on_update);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace medley
