#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/orchestrator/agent_client.h"
#include "coordinator/orchestrator/attempt_run.h"
#include "coordinator/orchestrator/job_journal.h"
#include "coordinator/orchestrator/live_trace.h"
#include "coordinator/orchestrator/measurement.h"
#include "coordinator/orchestrator/profile_learning.h"
#include "coordinator/orchestrator/run_control.h"
#include "coordinator/orchestrator/trace_collector.h"
#include "coordinator/orchestrator/worker_events.h"
#include "coordinator/problem/planned_job.h"
#include "coordinator/store/store.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/ir/link/message_protection.h"

namespace medley {

// Takes one job, on devices that were granted to it, from measuring through planning and launching to its
// end; or takes up one that an earlier coordinator launched. Run, or TakeUp, blocks and one of them is called
// once; the others from any thread.
class JobRunner : public RunControl {
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
  // or as 1 Gbit/s Ethernet. Devices too small for any part of it are left out. `so_far`: of the job that uses those (SoFarOf).
  struct PlanBesideOthers {
    PlannedJob planned;
    double running_step_seconds =
        0;  // of so_far.plan by what is known now; 0: there is none, or it cannot be planned any more
  };
  absl::StatusOr<PlanBesideOthers> PlanBeside(const v1::JobSpec& asked,
                                              const std::vector<ClusterDeviceLocation>& beside,
                                              const JobSoFar& so_far = {});

  // How often what was traced of the job has corrected what was measured of devices.
  int lessons() const { return lessons_; }

  // Measures the links between the devices anew, with messages of this protection, and starts nothing else. Errors: those of
  // link_measurement.h.
  absl::Status RefreshLinks(MessageProtection protection);

  // From now on `live` gets the steps that are traced, until it is closed or the attempt ends, which it is told.
  // FailedPrecondition: it does not train, or another one gets them.
  absl::Status FeedTrace(const std::shared_ptr<LiveTrace>& live);

  const std::vector<ClusterDeviceLocation>& devices() const { return devices_; }

 private:
  SearchLimits Limits() { return {.stop = &stop_planning()}; }
  AttemptEnd RunAttempt(std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks);
  Measurement MeasurementOf();
  Measurement::Result Measure(const v1::JobSpec& spec, const TrainingSpec& training);
  RunOutcome Train(const TrainingSpec& training, const PlannedJob& planned, v1::PlanGrounds grounds);
  // What comes of an attempt's traced steps. Without a learner nothing is known of what was predicted: they are told to who asks for them.
  struct TracedSteps {
    TraceCollector traces;
    std::optional<ProfileLearner> learner;
  };
  // Of an attempt that an earlier coordinator launched, predicted again from what it was planned with. None: its steps cannot be told, as
  // of a model whose files are gone; training goes on.
  std::optional<TracedSteps> TracedAgain(const v1::Job& job);
  void OnEvent(const EventSource& source, const v1::WorkerEvent& event, TracedSteps* traced);
  // The trace of a step that this was the last rank's part of.
  std::optional<v1::Trace> CollectTrace(TraceCollector& traces, int rank, const v1::WorkerEvent& event);
  std::shared_ptr<LiveTrace> OpenTrace();
  // Who waits for traces of the attempt hears why it has ended, and what it says of predictions is kept.
  void NoteEnd(uint32_t attempt, const AttemptEnd& end);
  absl::Status EndOfTrace(uint32_t attempt, const RunOutcome& outcome) const;
  absl::Status RefuseEmulated(const v1::JobSpec& spec) const;

  const Services services_;
  const std::string job_id_;
  const std::vector<ClusterDeviceLocation> devices_;
  const absl::Time granted_ = Now();
  std::atomic<int> lessons_ = 0;
  Mutex collecting_;  // of the attempt's TraceCollector and what is learnt from it; taken before feeding_
  // Taken before what RunControl locks: whether the run trains is asked under it, so that none is fed whose end nobody would hear.
  Mutex feeding_;
  std::shared_ptr<LiveTrace> live_trace_ ABSL_GUARDED_BY(feeding_);
  std::set<std::string> unreadable_;  // checkpoints; of the running thread alone
};

}  // namespace medley
