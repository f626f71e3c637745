#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/orchestrator/attempt_run.h"
#include "coordinator/orchestrator/job_beginning.h"
#include "coordinator/orchestrator/job_journal.h"
#include "coordinator/problem/planned_job.h"

// A launch of a job's training: what its tasks are told, what their nodes must agree about, and what is kept of it.
namespace medley {

// One task for each rank of the plan. Internal: the plan uses a device that is not among `granted`.
absl::StatusOr<std::vector<AttemptTask>> TrainingTasks(const v1::Job& job, const PlannedJob& planned,
                                                       const Beginning& beginning,
                                                       const std::vector<ClusterDeviceLocation>& granted);

// Nodes that read other data than the rest, or than the job began with, would train without a word: FailedPrecondition. What the
// first of them reads is kept as the job's where it had none.
absl::Status CheckData(JobJournal& journal, const std::string& job_id, const std::vector<AttemptTask>& tasks,
                       const std::vector<v1::PrepareResponse>& responses);

// The job runs, and by these tasks a later coordinator takes it up.
void NoteLaunch(JobJournal& journal, const std::string& job_id, const std::vector<AttemptTask>& tasks);

}  // namespace medley
