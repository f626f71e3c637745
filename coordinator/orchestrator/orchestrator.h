#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/jobs/job_queue.h"
#include "coordinator/orchestrator/agent_client.h"
#include "coordinator/orchestrator/job_journal.h"
#include "coordinator/orchestrator/job_runner.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/base/mutex.h"

namespace medley {

// The coordinator without its wire: takes jobs and nodes in, gives devices to jobs, runs each job in a thread of its own and
// brings it back when something is lost. What is decided is decided by pure functions (coordinator/{jobs,cluster,planner,
// predictor}); what must survive is in the store.
//
// Thread-safe. `store` and `agents` outlive it. The destructor stops all work; unfinished jobs go on with the next coordinator.
class Orchestrator {
 public:
  struct Options {
    absl::Duration lease = absl::Seconds(6);
  };
  // Jobs that the last coordinator left running are recovered: they count a restart and wait for devices.
  static absl::StatusOr<std::unique_ptr<Orchestrator>> Create(const Options& options, Store& store, AgentClient& agents);
  ~Orchestrator();

  // As the rpcs of the same name (proto/medley/v1/coordinator.proto).
  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request);
  absl::StatusOr<v1::Job> Cancel(const std::string& job_id);
  absl::StatusOr<v1::PlanReport> Plan(const v1::JobSpec& spec);
  absl::StatusOr<absl::Duration> Register(const v1::RegisterRequest& request);
  absl::StatusOr<absl::Duration> Renew(const v1::RenewRequest& request);
  std::vector<v1::Node> Nodes();
  absl::StatusOr<v1::ListKernelsResponse> Kernels(const std::string& node);
  // What was measured of the kinds of their devices.
  absl::StatusOr<std::vector<v1::DeviceProfile>> Profiles();
  absl::StatusOr<v1::ClusterSpec> ExportCluster();
  absl::StatusOr<v1::ListLinksResponse> Links(const std::vector<std::string>& devices);
  absl::StatusOr<v1::ListLinksResponse> MeasureLinks(const std::vector<std::string>& devices);
  absl::StatusOr<v1::AllReduceExplanation> ExplainAllReduce(const v1::ExplainAllReduceRequest& request);
  // Ends the dry runs and measurements that calls are waiting for, and those to come, with Cancelled.
  void StopCalls();
  JobJournal& journal() { return journal_; }

 private:
  struct Active {
    std::unique_ptr<JobRunner> runner;
    std::thread thread;
    bool ended = false;
  };

  Orchestrator(const Options& options, Store& store, AgentClient& agents);
  void Loop();
  void Tick();
  void ExpireLeases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandleLost(const std::vector<LostNode>& nodes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartWaitingJobs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartJob(const std::string& job_id, const std::vector<std::string>& devices) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunJob(const std::string& job_id, JobRunner& runner);
  void Settle(const std::string& job_id, JobRunner& runner, RunOutcome outcome);
  bool MoreMayCome(const v1::Job& job, const std::vector<ClusterDeviceLocation>& given)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteMissing(const WaitingJob& waiting, const std::vector<std::string>& free) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> WantedDevices(const v1::JobSpec& spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> UsableDevices() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> ForbiddenDevices(const v1::JobSpec& spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::thread> TakeEndedThreads() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> LiveDevices() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of `devices`, or of all live ones if it is empty.
  absl::StatusOr<std::vector<ClusterDeviceLocation>> LocateOrAll(const std::vector<std::string>& devices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does what a call waits for, on devices occupied under `name`, which are free again afterwards.
  void Serve(const std::string& name, JobRunner& runner, const std::function<void()>& work);
  absl::Status RefuseInUse(const std::vector<ClusterDeviceLocation>& devices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<v1::ListLinksResponse> LinksAmong(const std::vector<ClusterDeviceLocation>& devices);
  absl::StatusOr<std::vector<ClusterDeviceLocation>> Locate(const std::vector<std::string>& devices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Store& store_;
  AgentClient& agents_;
  JobJournal journal_;
  Mutex mutex_;
  ConditionVariable changed_;
  ClusterView cluster_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> waiting_ ABSL_GUARDED_BY(mutex_);  // job ids in order of submission
  std::map<std::string, std::vector<std::string>> tried_in_vain_ ABSL_GUARDED_BY(mutex_);  // by job id
  std::map<std::string, Active> active_ ABSL_GUARDED_BY(mutex_);
  // Nodes whose agent did not answer; not used until they are heard of again.
  std::set<std::string> suspect_nodes_ ABSL_GUARDED_BY(mutex_);
  int64_t dry_runs_ ABSL_GUARDED_BY(mutex_) = 0;  // and measurements of links
  std::set<JobRunner*> serving_ ABSL_GUARDED_BY(mutex_);
  bool calls_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread loop_;
};

}  // namespace medley
