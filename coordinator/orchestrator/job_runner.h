#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/orchestrator/agent_client.h"
#include "coordinator/orchestrator/attempt_run.h"
#include "coordinator/orchestrator/job_journal.h"
#include "coordinator/orchestrator/measurement.h"
#include "coordinator/problem/planned_job.h"
#include "coordinator/store/store.h"
#include "runtime/base/mutex.h"

namespace medley {

// How a run of a job ended, and what is to become of the job.
struct RunOutcome {
  JobEvent event = JobEvent::kFinished;  // kFinished, kLost, kRefused, kCancelled or kWaitForDevices (no plan fits)
  std::string cause;
  AttemptEnd end;                          // of what failed
};

// Takes one job, on devices that were granted to it, from measuring through planning and launching to its end.
// Run blocks and is called once; Abort from any thread.
class JobRunner {
 public:
  struct Services {
    Store& store;
    JobJournal& journal;
    AgentClient& agents;
  };
  JobRunner(const Services& services, std::string job_id, std::vector<ClusterDeviceLocation> devices)
      : services_(services), job_id_(std::move(job_id)), devices_(std::move(devices)) {}

  RunOutcome Run();

  // Measures and plans, starts nothing. For jobs that are not queued: `spec` need not be the journal's.
  absl::StatusOr<PlannedJob> PlanOnly(const v1::JobSpec& spec);

  // Measures the links between the devices anew and starts nothing else. Errors: those of link_measurement.h.
  absl::Status RefreshLinks();

  // Ends what is under way. kLost: something it needs is gone; kCancelled: the user's wish.
  void Abort(JobEvent event, const std::string& cause);
  // Abort was called with kCancelled, first.
  bool cancelled();

  const std::vector<ClusterDeviceLocation>& devices() const { return devices_; }

 private:
  AttemptEnd RunAttempt(std::vector<AttemptTask> tasks, const AttemptRun::Callbacks& callbacks, absl::Duration prepare_timeout);
  Measurement::Result Measure(const v1::JobSpec& spec, const TrainingSpec& training);
  absl::StatusOr<std::vector<AttemptTask>> TrainingTasks(const v1::Job& job, const TrainingSpec& training,
                                                       const PlannedJob& planned, uint64_t attempt);
  RunOutcome Train(const TrainingSpec& training, const PlannedJob& planned);
  void OnEvent(const PlannedJob& planned, uint32_t attempt, int unit, const v1::WorkerEvent& event);
  RunOutcome OutcomeOf(const AttemptEnd& end);
  absl::Status RefuseEmulated(const v1::JobSpec& spec) const;

  const Services services_;
  const std::string job_id_;
  const std::vector<ClusterDeviceLocation> devices_;
  Mutex mutex_;
  std::set<AttemptRun*> current_ ABSL_GUARDED_BY(mutex_);  // several while links are measured
  std::optional<RunOutcome> aborted_ ABSL_GUARDED_BY(mutex_);
};

// The job's spec in domain terms; reads the model's dimensions where the spec names a directory.
absl::StatusOr<TrainingSpec> ResolveSpec(const v1::JobSpec& spec, const std::string& job_id);

}  // namespace medley
