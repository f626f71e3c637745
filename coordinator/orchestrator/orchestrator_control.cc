// What users do with jobs and nodes.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/job_terms.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/orchestrator/spec_planning.h"
#include "coordinator/problem/planning_problem.h"
#include "coordinator/wire/job_life_codec.h"
#include "runtime/base/counted.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/log/log.h"
#include "runtime/wire/job_paths.h"

namespace medley {

absl::StatusOr<v1::Job> Orchestrator::Submit(const v1::SubmitJobRequest& request) {
  // Before anything that the spec names is read.
  RETURN_IF_ERROR(CheckJobPaths(request.spec(), options_.allowed_directories));
  ASSIGN_OR_RETURN(const TrainingSpec training, ResolveSpec(request.spec(), ""));
  ASSIGN_OR_RETURN(const bool is_repeat, store_.HasRequest(request.request_id()));
  if (!is_repeat) {
    MutexLock lock(mutex_);
    if (waiting_.size() >= options_.most_waiting_jobs)
      return absl::ResourceExhaustedError(absl::StrCat(Counted(waiting_.size(), "job"),
                                                       waiting_.size() == 1 ? " waits" : " wait",
                                                       " already, and no more may (most_waiting_jobs)"));
  }
  ASSIGN_OR_RETURN(const v1::Job job, store_.InsertJob(request.spec(), request.request_id(), UnixSecondsNow(),
                                                       ShapeKey(training)));
  MutexLock lock(mutex_);
  journal_.Add(job);  // unless it is known, and further on
  const bool known = Has(waiting_, job.id()) || active_.count(job.id()) > 0;
  if (!known && Waits(journal_.Get(job.id()))) {
    waiting_.push_back(job.id());
    changed_.NotifyAll();
  }
  return journal_.Get(job.id());
}

absl::StatusOr<v1::Job> Orchestrator::Cancel(const v1::CancelJobRequest& request) {
  const std::string& id = request.job_id();
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const v1::Job job, journal_.Get(id));
  ASSIGN_OR_RETURN(const JobLife life, LifeOf(job));
  if (request.after_checkpoint() && !IsEnded(life.state) && job.spec().checkpoint().directory().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " has no checkpoint.directory to save a checkpoint in"));
  }
  const auto active = active_.find(id);
  if (active == active_.end() || active->second.ended) {
    std::erase(waiting_, id);
    tried_in_vain_.erase(id);
    not_before_.erase(id);
    ASSIGN_OR_RETURN(const v1::Job cancelled, journal_.Apply(id, JobEvent::kCancelled, kCancelledByUser));
    RETURN_IF_ERROR(journal_.CheckKept(id));
    return cancelled;
  }
  const bool at_once = !request.after_checkpoint() || job.state() != v1::JOB_STATE_RUNNING ||
                       job.asked_to_end() == v1::JOB_ENDING_AT_ONCE;
  const v1::JobEnding ending = at_once ? v1::JOB_ENDING_AT_ONCE : v1::JOB_ENDING_AFTER_CHECKPOINT;
  RETURN_IF_ERROR(journal_.Change(id, [&](v1::Job& j) { j.set_asked_to_end(ending); }).status());
  End(id, ending, *active->second.runner);
  RETURN_IF_ERROR(journal_.CheckKept(id));
  return journal_.Get(id);
}

void Orchestrator::End(const std::string& job_id, v1::JobEnding ending, JobRunner& runner) {
  if (ending == v1::JOB_ENDING_AT_ONCE) {
    runner.Abort(JobEvent::kCancelled, kCancelledByUser);
    journal_.SetWait(job_id, "is being cancelled");
  } else if (ending == v1::JOB_ENDING_AFTER_CHECKPOINT) {
    runner.FinishEarly(JobEvent::kCancelled, "stopped by the user after a checkpoint");
    journal_.SetWait(job_id, "ends after its step and a checkpoint");
  }
}

absl::StatusOr<v1::Job> Orchestrator::Resume(const std::string& job_id) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const v1::Job job, journal_.Get(job_id));
  if (job.state() == v1::JOB_STATE_DONE) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_id, " is done; one that failed or was cancelled can be resumed"));
  }
  const absl::StatusOr<v1::Job> after = journal_.Apply(job_id, JobEvent::kResumed, "resumed by the user");
  RETURN_IF_ERROR(after.status());
  const auto active = active_.find(job_id);
  const bool runs = active != active_.end() && !active->second.ended;
  if (Waits(after) && !runs && !Has(waiting_, job_id)) {
    not_before_.erase(job_id);
    waiting_.push_back(job_id);
    changed_.NotifyAll();
  }
  RETURN_IF_ERROR(journal_.CheckKept(job_id));
  return after;
}

absl::StatusOr<v1::Job> Orchestrator::Hold(const v1::HoldJobRequest& request) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const v1::Job job, journal_.Get(request.job_id()));
  if (request.hold() && !Has(waiting_, job.id())) {
    ASSIGN_OR_RETURN(const JobLife life, LifeOf(job));
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id(), " is ", NameOf(life.state), "; only one that waits can be held"));
  }
  if (job.held() == request.hold()) {
    RETURN_IF_ERROR(journal_.CheckKept(job.id()));
    return job;
  }
  RETURN_IF_ERROR(journal_.Change(job.id(), [&](v1::Job& j) { j.set_held(request.hold()); }).status());
  journal_.SetWait(job.id(),
                   request.hold() ? absl::StrCat("held; `medley release ", job.id(), "` lets it go") : "");
  changed_.NotifyAll();
  RETURN_IF_ERROR(journal_.CheckKept(job.id()));
  return journal_.Get(job.id());
}

absl::Status Orchestrator::Delete(const std::string& job_id) {
  MutexLock lock(mutex_);
  if (active_.count(job_id) > 0 && !active_[job_id].ended) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job_id, " has not ended"));
  }
  return journal_.Delete(job_id);
}

absl::StatusOr<v1::DrainNodeResponse> Orchestrator::DrainNode(const v1::DrainNodeRequest& request) {
  const std::string& node = request.node();
  MutexLock lock(mutex_);
  const std::vector<NodeSnapshot> nodes = cluster_.Nodes(Time());
  if (!standing_.IsDrained(node) && std::none_of(nodes.begin(), nodes.end(), [&](const NodeSnapshot& one) {
        return one.description.name == node;
      }))
    return absl::NotFoundError(absl::StrCat("no node \"", node, "\""));
  RETURN_IF_ERROR(store_.PutDrainedNode(node));
  if (standing_.Drain(node)) LogInfo(absl::StrCat("node ", node, " is drained"), {.node = node});
  return MoveJobsFrom(node, BecauseDrained(node), request.now());
}

v1::DrainNodeResponse Orchestrator::MoveJobsFrom(const std::string& node, const std::string& cause,
                                                 bool now) {
  v1::DrainNodeResponse response;
  for (auto& [id, active] : active_) {
    const bool is_there = std::any_of(active.devices.begin(), active.devices.end(),
                                      [&](const std::string& device) { return NodeOf(device) == node; });
    if (active.ended || !is_there) continue;
    const absl::StatusOr<v1::Job> job = journal_.Get(id);
    if (!job.ok()) continue;
    const bool saves = !job->spec().checkpoint().directory().empty();
    const bool trains = job->state() == v1::JOB_STATE_RUNNING;
    if (trains && !saves && !now) {
      response.add_staying(id);
      continue;
    }
    response.add_leaving(id);
    // What does not train yet loses nothing.
    const bool after_checkpoint = trains && saves;
    if (after_checkpoint) {
      active.runner->FinishEarly(JobEvent::kInterrupted, cause);
    } else {
      response.add_leaving_at_once(id);
      active.runner->Abort(JobEvent::kInterrupted, cause);
    }
    journal_.SetWait(
        id, absl::StrCat("leaves node ", node, after_checkpoint ? " after its step and a checkpoint" : ""));
  }
  return response;
}

absl::Status Orchestrator::UndrainNode(const std::string& node) {
  MutexLock lock(mutex_);
  if (!standing_.IsDrained(node)) {
    const std::vector<NodeSnapshot> nodes = cluster_.Nodes(Time());
    const bool is_known = std::any_of(nodes.begin(), nodes.end(),
                                      [&](const NodeSnapshot& one) { return one.description.name == node; });
    return is_known ? absl::OkStatus() : absl::NotFoundError(absl::StrCat("no node \"", node, "\""));
  }
  RETURN_IF_ERROR(store_.DeleteDrainedNode(node));
  standing_.Undrain(node);
  LogInfo(absl::StrCat("node ", node, " is not drained any more"), {.node = node});
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status Orchestrator::ForgetNode(const std::string& node) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(cluster_.Forget(node));
  RETURN_IF_ERROR(store_.DeleteDrainedNode(node));
  standing_.Undrain(node);
  standing_.SuspectNoMore(node);
  arrivals_.AwaitNoMore(node);
  changed_nodes_.insert(node);  // that what was to be kept of it until now is not kept after this
  return store_.ChangeNodes({{node, std::nullopt}});
}

}  // namespace medley
