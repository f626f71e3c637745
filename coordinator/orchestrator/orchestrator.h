#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/jobs/job_queue.h"
#include "coordinator/orchestrator/agent_client.h"
#include "coordinator/orchestrator/cluster_round.h"
#include "coordinator/orchestrator/job_journal.h"
#include "coordinator/orchestrator/job_runner.h"
#include "coordinator/orchestrator/link_table.h"
#include "coordinator/orchestrator/node_arrivals.h"
#include "coordinator/orchestrator/node_standing.h"
#include "coordinator/orchestrator/renewals.h"
#include "coordinator/store/store.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace medley {

// The coordinator without its wire: takes jobs and nodes in, gives devices to jobs, runs each job in a thread
// of its own and brings it back when something is lost. What is decided is decided by pure functions
// (coordinator/{jobs,cluster,planner, predictor}); what must survive is in the store.
//
// Thread-safe. `store` and `agents` outlive it. The destructor leaves jobs that train to their agents, which
// go on, and stops all other work; unfinished jobs go on with the next coordinator, those that train without
// a step lost.
class Orchestrator {
 public:
  struct Options {
    absl::Duration lease = absl::Seconds(6);
    // No job starts before no new node has come for so long, nor, after a start, before those that were there
    // before have come or a lease has passed.
    absl::Duration settle = absl::Seconds(2);
    absl::Duration back_off = absl::Seconds(5);                       // see BackOff
    size_t most_waiting_jobs = 10'000;                                // further ones are refused
    std::vector<std::string> allowed_directories = {};                // CheckJobPaths
    MessageProtection message_protection = MessageProtection::kNone;  // the least, of every job
    const Clock* clock = &Clock::Steady();                            // of leases and pauses; outlives it
    bool own_thread = true;                                           // false: somebody else calls Tick
  };
  // Jobs that train are taken up where they are; others that the last coordinator was at wait for devices
  // again.
  static absl::StatusOr<std::unique_ptr<Orchestrator>> Create(const Options& options, Store& store,
                                                              AgentClient& agents);
  ~Orchestrator();

  // As the rpcs of the same name (proto/medley/v1/coordinator.proto).
  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest& request);
  absl::StatusOr<v1::Job> Cancel(const v1::CancelJobRequest& request);
  absl::StatusOr<v1::Job> Resume(const std::string& job_id);
  // `cancelled` as of Plan.
  absl::StatusOr<v1::ReplanJobResponse> Replan(const v1::ReplanJobRequest& request,
                                               const std::function<bool()>& cancelled = nullptr);
  absl::StatusOr<v1::Job> Hold(const v1::HoldJobRequest& request);
  absl::Status Delete(const std::string& job_id);
  absl::Status ForgetNode(const std::string& node);
  absl::StatusOr<v1::DrainNodeResponse> DrainNode(const v1::DrainNodeRequest& request);
  absl::Status UndrainNode(const std::string& node);
  // `cancelled`, asked several times a second: nobody waits for the answer any more.
  // With the predicted step if it asks for that.
  absl::StatusOr<v1::PlanReport> Plan(const v1::PlanJobRequest& request,
                                      const std::function<bool()>& cancelled = nullptr);
  // As Plan, of a job that has one.
  absl::StatusOr<v1::PlanReport> PlanOf(const v1::GetPlanRequest& request,
                                        const std::function<bool()>& cancelled = nullptr);
  absl::StatusOr<v1::RegisterResponse> Register(const v1::RegisterRequest& request);
  absl::StatusOr<absl::Duration> Renew(const v1::RenewRequest& request);
  void Deregister(const v1::DeregisterRequest& request);
  absl::StatusOr<v1::LeaveResponse> Leave(const v1::LeaveRequest& request);
  std::vector<v1::Node> Nodes();
  struct Leases {
    int held = 0;       // of nodes that are alive, those that expire among them
    int expiring = 0;   // not renewed for two thirds of their length, in which two renewals should have come
    uint64_t lost = 0;  // that ended without a renewal, since this coordinator began
  };
  Leases CountLeases();
  absl::StatusOr<v1::ListKernelsResponse> Kernels(const std::string& node);
  absl::StatusOr<v1::CheckNodesResponse> CheckNodes(const v1::CheckNodesRequest& request);
  absl::StatusOr<v1::GetStacksResponse> Stacks(const std::string& job_id);
  // Each message goes to `update`, which says false when nobody reads any more; `cancelled` as of Plan.
  absl::Status TraceSteps(const v1::TraceStepsRequest& request,
                          const std::function<bool(const v1::TraceStepsUpdate&)>& update,
                          const std::function<bool()>& cancelled);
  // What was measured of the kinds of their devices.
  absl::StatusOr<std::vector<v1::DeviceProfile>> Profiles();
  // Its links are those of Links({}) as the planner has them (AddLinks): of few devices each as it was measured, of many those that are
  // alike as classes, since all pairs of thousands of devices are more than a file may name.
  absl::StatusOr<v1::ClusterSpec> ExportCluster();
  struct KnownLinks {
    std::vector<ClusterDeviceLocation> devices;
    LinkTable table;
  };
  // With messages of `protection`; unspecified: the least that this coordinator and the devices' nodes ask for.
  absl::StatusOr<KnownLinks> Links(const std::vector<std::string>& devices,
                                   v1::MessageProtection protection = {});
  // `cancelled` as of Plan. FailedPrecondition, too: WithProtection.
  absl::StatusOr<KnownLinks> MeasureLinks(const std::vector<std::string>& devices,
                                          v1::MessageProtection protection = {},
                                          const std::function<bool()>& cancelled = nullptr);
  absl::StatusOr<v1::AllReduceExplanation> ExplainAllReduce(const v1::ExplainAllReduceRequest& request);
  // Ends the dry runs, comparisons and measurements that calls are waiting for, and those to come, with Cancelled.
  void StopCalls();
  JobJournal& journal() { return journal_; }

  // Does what is due: expires leases, starts waiting jobs, plans anew what has room to grow. Called by its
  // own thread.
  void Tick();

 private:
  struct Active {
    std::unique_ptr<JobRunner> runner;
    std::thread thread;
    std::set<std::string> devices;  // that are the job's, also of nodes that are not there yet
    bool ended = false;
    std::set<std::string> taken_up;     // ids of its tasks, if an earlier coordinator launched it
    uint32_t looked_at_checkpoint = 0;  // the last one at which it was asked whether the job should grow
    std::set<std::string> grown_over;   // devices that it was asked for in vain
    int lessons_asked_for = 0;          // of its runner, when that was asked last
    std::vector<std::string> tried;     // before, in vain
    bool stall_told = false;
  };
  // How often Loop does what is due, and callers are asked whether they still wait.
  static constexpr absl::Duration kTick = absl::Milliseconds(100);

  Orchestrator(const Options& options, Store& store, AgentClient& agents);
  absl::Time Time() const { return options_.clock->Now(); }
  void Loop();
  void KeepNodes();
  // The nodes that the last coordinator knew.
  void TakeUpNodes(const std::vector<Store::KnownNode>& nodes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those of them that have had the time to come back and have not.
  void LoseWhoIsNotBack(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ExpireLeases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job's devices on a node that registers, and its end if the node has lost its task.
  void GiveBack(const std::string& job_id, const Active& active, const std::string& node,
                const v1::RegisterRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Aborts the jobs of nodes whose life is over.
  void HandleLost(const std::vector<LostNode>& nodes, JobEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartWaitingJobs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartWhatCanStart() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<WaitingJob> Describe(const v1::Job& job, ClusterRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool StartJob(const std::string& job_id, const std::vector<std::string>& devices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeUp(const v1::Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has a run end as its job was asked to; or does nothing.
  void End(const std::string& job_id, v1::JobEnding ending, JobRunner& runner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Settle(const std::string& job_id, JobRunner& runner, RunOutcome outcome);
  // Whether a job waits that needs nothing but devices of those that are there to be free.
  // Of those that are not held; the least int: nobody waits.
  int HighestWaitingPriority() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool SomeJobCouldStart() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MoreMayCome(const v1::Job& job, const std::vector<std::string>& given, const ClusterRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `first`: id of the first job that waits; empty: it is this one.
  std::string WhatItWaitsFor(const WaitingJob& waiting, const std::string& first,
                             const std::set<std::string>& free, const ClusterRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> WantedDevices(const v1::JobSpec& spec) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Devices by how fast they were measured to be for a model of this shape, of which those are taken that a job takes at most.
  absl::StatusOr<absl::Span<const std::string>> FastestFirst(const std::string& shape, ClusterRound& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> UsableDevices() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the jobs leave that can: those that have devices on the node, after their step and a checkpoint, and with `now` the others, too.
  v1::DrainNodeResponse MoveJobsFrom(const std::string& node, const std::string& cause, bool now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The node leaves, as its agent says: MoveJobsFrom.
  v1::DrainNodeResponse NoteLeaving(const std::string& node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status NoLease(const std::string& node) {
    return absl::NotFoundError(absl::StrCat("node ", node, " holds no lease here"));
  }
  // Neither suspect nor drained nor leaving.
  bool IsUsable(const std::string& device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepOnly(const std::string& job_id, const std::vector<std::string>& devices);
  void WatchForStalls() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RepeatWishes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::thread> TakeEndedThreads() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> LiveDevices() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The locations of `devices`, or of all live ones if it is empty.
  absl::StatusOr<std::vector<ClusterDeviceLocation>> LocateOrAll(const std::vector<std::string>& devices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does what a call waits for, on devices occupied under `name`, if any are, which are free again afterwards.
  void Serve(const std::string& name, JobRunner& runner, const std::function<void()>& work,
             const std::function<bool()>& cancelled = nullptr);
  absl::Status RefuseInUse(const std::vector<ClusterDeviceLocation>& devices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<KnownLinks> LinksAmong(const std::vector<ClusterDeviceLocation>& devices,
                                        MessageProtection protection);
  // Of messages between `devices`, of links that are asked for with `asked`.
  MessageProtection ProtectionOf(v1::MessageProtection asked,
                                 const std::vector<ClusterDeviceLocation>& devices) const;
  // Whether the job's messages are protected whatever devices it gets.
  bool AsksForProtection(const v1::JobSpec& spec) const;
  JobRunner::Services Services() {
    return {.store = store_,
            .journal = journal_,
            .agents = agents_,
            .planned = nullptr,
            .least_protection = options_.message_protection};
  }
  absl::StatusOr<std::vector<ClusterDeviceLocation>> Locate(const std::vector<std::string>& devices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Growing (orchestrator_replan.cc).
  struct Growth {
    v1::Job job;
    std::string name;  // that the free devices are occupied under
    std::vector<ClusterDeviceLocation> own, free;
    bool for_speeds = false;  // nothing has changed but what is known of how fast devices are
  };
  // Devices that the running job may use beside its own, occupied under a name. FailedPrecondition: it cannot
  // be planned anew.
  absl::StatusOr<Growth> PrepareGrowth(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<v1::ReplanJobResponse> Decide(const Growth& growth, bool force,
                                               const std::function<bool()>& cancelled);
  void GrowJobs() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  Store& store_;
  AgentClient& agents_;
  JobJournal journal_;
  Renewals renewals_;
  Mutex mutex_;
  ConditionVariable changed_;
  ClusterView cluster_ ABSL_GUARDED_BY(mutex_);
  uint64_t lost_leases_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time next_look_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // at what waits
  // Nodes that have come or gone since the last tick, which tells the store: that of each alone would be written for as long as a
  // disk takes, with everybody waiting.
  std::set<std::string> changed_nodes_ ABSL_GUARDED_BY(mutex_);
  // Nodes whose leases the last coordinator held to its end, until they come back, or are lost. Nothing can be planned on them.
  std::map<std::string, NodeDescription> not_back_ ABSL_GUARDED_BY(mutex_);
  // Addresses of agents that have registered or renewed since the last tick, to be connected to.
  std::vector<std::string> heard_of_ ABSL_GUARDED_BY(mutex_);
  absl::Time ticked_ ABSL_GUARDED_BY(mutex_);
  NodeArrivals arrivals_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> waiting_ ABSL_GUARDED_BY(mutex_);  // job ids in order of submission
  struct InVain {
    std::vector<std::string> devices;
    std::string cause;
  };
  std::map<std::string, InVain> tried_in_vain_ ABSL_GUARDED_BY(mutex_);   // by job id
  std::map<std::string, absl::Time> not_before_ ABSL_GUARDED_BY(mutex_);  // by job id
  std::map<std::string, Active> active_ ABSL_GUARDED_BY(mutex_);
  NodeStanding standing_ ABSL_GUARDED_BY(mutex_);
  int64_t dry_runs_ ABSL_GUARDED_BY(mutex_) = 0;  // and measurements of links
  std::set<JobRunner*> serving_ ABSL_GUARDED_BY(mutex_);
  struct Growing {
    std::thread thread;
    std::atomic<bool> ended = false;  // as good as: it waits for nothing any more
  };
  std::map<std::string, std::unique_ptr<Growing>> growing_ ABSL_GUARDED_BY(mutex_);  // by job id
  bool calls_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread loop_;
};

}  // namespace medley
