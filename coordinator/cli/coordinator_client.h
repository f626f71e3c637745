#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// Ends a call that is under way; from any thread, once or more.
class CallHandle {
 public:
  CallHandle();
  ~CallHandle();
  void Cancel();

 private:
  friend class CoordinatorClient;
  struct State;
  std::shared_ptr<State> state_;
};

// The coordinator over gRPC. Every call ends within its timeout. One thread, Cancel excepted.
// Errors: the coordinator's own; Unavailable "no coordinator at ADDRESS (...)"; DeadlineExceeded.
class CoordinatorClient {
 public:
  CoordinatorClient(const std::string& address, absl::Duration timeout);
  ~CoordinatorClient();

  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request);
  absl::StatusOr<v1::Job> GetJob(const std::string& job_id);
  absl::StatusOr<v1::ListJobsResponse> ListJobs();
  absl::StatusOr<v1::Job> Cancel(const std::string& job_id);
  // Profiles what is missing: may take ten times the timeout, and five minutes at least.
  absl::StatusOr<v1::PlanReport> PlanJob(const v1::JobSpec& spec);
  absl::StatusOr<v1::ListNodesResponse> ListNodes();
  // Of all live nodes if `node` is empty. May take as long as PlanJob.
  absl::StatusOr<v1::ListKernelsResponse> ListKernels(const std::string& node);
  // Between `devices`, or all that there are if it is empty.
  absl::StatusOr<v1::ListLinksResponse> ListLinks(const std::vector<std::string>& devices);
  // The same, measured anew. May take an hour: seconds a link.
  absl::StatusOr<v1::ListLinksResponse> MeasureLinks(const std::vector<std::string>& devices);
  absl::StatusOr<v1::AllReduceExplanation> ExplainAllReduce(const std::vector<std::string>& devices,
                                                            uint64_t bytes);
  absl::StatusOr<v1::PlanReport> GetPlan(const std::string& job_id);
  absl::StatusOr<v1::Trace> GetTrace(const std::string& job_id);
  absl::StatusOr<v1::ListStepsResponse> ListSteps(const std::string& job_id);
  absl::StatusOr<v1::ListLogsResponse> ListLogs(const std::string& job_id);
  absl::StatusOr<v1::ClusterSpec> ExportCluster();

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
