#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/orchestrator/agent_client.h"
#include "coordinator/orchestrator/attempt_run.h"
#include "coordinator/orchestrator/job_journal.h"
#include "coordinator/orchestrator/live_trace.h"
#include "coordinator/orchestrator/measurement.h"
#include "coordinator/orchestrator/trace_collector.h"
#include "coordinator/problem/planned_job.h"
#include "coordinator/store/store.h"
#include "runtime/base/mutex.h"
#include "runtime/ir/link/message_protection.h"

namespace medley {

// How a run of a job ended, and what is to become of the job.
struct RunOutcome {
  // kFinished, kLost, kInterrupted, kRefused, kCancelled or kWaitForDevices (no plan fits).
  JobEvent event = JobEvent::kFinished;
  std::string cause;
  AttemptEnd end;     // of what failed
  bool left = false;  // the job goes on without this coordinator: nothing becomes of it
};

// Takes one job, on devices that were granted to it, from measuring through planning and launching to its
// end; or takes up one that an earlier coordinator launched. Run, or TakeUp, blocks and one of them is called
// once; the others from any thread.
class JobRunner {
 public:
  struct Services {
    Store& store;
    JobJournal& journal;
    AgentClient& agents;
    // Called with the devices that the plan uses, once it is known. May be null.
    std::function<void(const std::vector<std::string>& devices)> planned;
    // CoordinatorConfig.message_protection.
    MessageProtection least_protection = MessageProtection::kNone;
  };
  JobRunner(const Services& services, std::string job_id, std::vector<ClusterDeviceLocation> devices)
      : services_(services), job_id_(std::move(job_id)), devices_(std::move(devices)) {}

  RunOutcome Run();

  // The job as it was stored, running. Its agents are waited for, `patience` long.
  RunOutcome TakeUp(const v1::Job& job, absl::Duration patience);

  // Measures and plans, starts nothing. For jobs that are not queued: `asked` need not be the journal's. When planning
  // has taken `time_limit` it ends with the best plan so far. Cancelled: it was aborted. DeadlineExceeded: no plan had been
  // found by then.
  absl::StatusOr<PlannedJob> PlanOnly(const v1::JobSpec& asked,
                                      absl::Duration time_limit = absl::InfiniteDuration(),
                                      ParetoListing listing = ParetoListing::kIfNeeded);

  // Why other plans than `plan` would be slower: ComparePlan by what it was made from. Cancelled: it was aborted.
  absl::StatusOr<Explanation> Compare(const Plan& plan, const v1::PlanGrounds& grounds);

  // How `asked` would be planned on the devices and `beside`, which are in use: what is missing of the former
  // is measured, links to the latter that were not measured are taken to be as slow as the slowest that was,
  // or as 1 Gbit/s Ethernet.
  absl::StatusOr<PlannedJob> PlanBeside(const v1::JobSpec& asked,
                                        const std::vector<ClusterDeviceLocation>& beside);

  // Measures the links between the devices anew, with messages of this protection, and starts nothing else. Errors: those of
  // link_measurement.h.
  absl::Status RefreshLinks(MessageProtection protection);

  // Ends what is under way, planning too. kLost: something it needs is gone; kCancelled: the user's wish; kInterrupted:
  // planned anew.
  void Abort(JobEvent event, const std::string& cause);

  // Ends the training after its current step and a checkpoint, with `event` (kCancelled, kInterrupted) and
  // `cause`. Nothing happens before it trains.
  void FinishEarly(JobEvent event, const std::string& cause);
  // Where FinishEarly was called: asks once more, if nobody has taken it yet. To be called again and again.
  void RepeatWish();

  // The coordinator ends: training goes on by itself; anything else is aborted with kInterrupted.
  void Leave();

  // From now on `live` gets the steps that are traced, until it is closed or the attempt ends, which it is told.
  // FailedPrecondition: it does not train, or another one gets them.
  absl::Status FeedTrace(const std::shared_ptr<LiveTrace>& live);

  // Abort was called with kCancelled, first.
  bool cancelled();

  // The ids of the tasks that are under way.
  std::vector<std::string> TaskIds();
  // When it was last heard of its training; absl::InfinitePast() if it does not train.
  absl::Time LastHeard();

  const std::vector<ClusterDeviceLocation>& devices() const { return devices_; }

 private:
  // OK while nothing has ended what is under way.
  absl::Status StillWanted();
  SearchLimits Limits() const { return {.stop = &stop_planning_}; }
  AttemptEnd RunAttempt(std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks);
  // `run` is under way while `work` is done.
  AttemptEnd WhileUnderWay(AttemptRun& run, bool trains, const std::function<AttemptEnd()>& work);
  Measurement MeasurementOf();
  Measurement::Result Measure(const v1::JobSpec& spec, const TrainingSpec& training);
  // What the tasks of a launch are told alike.
  v1::PrepareRequest SharedRequest(const v1::Job& job, const PlannedJob& planned,
                                   const std::string& checkpoint, bool other_run);
  absl::StatusOr<std::vector<AttemptTask>> TrainingTasks(const v1::Job& job, const PlannedJob& planned,
                                                         const std::string& checkpoint, bool other_run);
  RunOutcome Train(const TrainingSpec& training, const PlannedJob& planned, v1::PlanGrounds grounds);
  absl::Status CheckData(const std::vector<AttemptTask>& tasks,
                         const std::vector<v1::PrepareResponse>& responses);
  void NoteLaunch(const std::vector<AttemptTask>& tasks);
  void OnEvent(const std::string& device, uint32_t attempt, bool emulated, int task,
               const v1::WorkerEvent& event);
  RunOutcome OutcomeOf(const AttemptEnd& end);
  // The trace of a step that this was the last rank's part of.
  std::optional<v1::Trace> CollectTrace(TraceCollector& traces, int rank, const v1::WorkerEvent& event);
  std::shared_ptr<LiveTrace> OpenTrace();
  // Who waits for traces of the attempt hears why it has ended.
  void EndTrace(uint32_t attempt, const AttemptEnd& end);
  absl::Status RefuseEmulated(const v1::JobSpec& spec) const;

  const Services services_;
  const std::string job_id_;
  const std::vector<ClusterDeviceLocation> devices_;
  const absl::Time granted_ = Now();
  std::atomic<bool> stop_planning_ = false;
  Mutex mutex_;
  std::set<AttemptRun*> current_ ABSL_GUARDED_BY(mutex_);  // several while links are measured
  AttemptRun* training_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<LiveTrace> live_trace_ ABSL_GUARDED_BY(mutex_);
  Mutex collecting_;  // of the attempt's TraceCollector and what is learnt from it; taken before mutex_
  std::optional<RunOutcome> aborted_ ABSL_GUARDED_BY(mutex_);
  std::optional<RunOutcome> wish_ ABSL_GUARDED_BY(mutex_);  // what becomes of it when it has finished early
  absl::Time heard_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::set<std::string> unreadable_;  // checkpoints; of the running thread alone
};

// The job's spec in domain terms; reads the model's dimensions where the spec names a directory.
absl::StatusOr<TrainingSpec> ResolveSpec(const v1::JobSpec& spec, const std::string& job_id);

}  // namespace medley
