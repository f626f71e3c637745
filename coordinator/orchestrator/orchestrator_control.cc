// What users do with jobs and nodes.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/job_terms.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/orchestrator/prediction_record.h"
#include "coordinator/orchestrator/spec_planning.h"
#include "coordinator/problem/planned_job.h"
#include "coordinator/wire/job_life_codec.h"
#include "coordinator/wire/plan_report_codec.h"
#include "coordinator/wire/predicted_step_codec.h"
#include "runtime/base/some_names.h"
#include "runtime/base/status_macros.h"
#include "runtime/log/log.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/job_codec.h"
#include "runtime/wire/job_paths.h"
#include "runtime/wire/plan_codec.h"

namespace medley {
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
  if (drained_nodes_.count(node) == 0 &&
      std::none_of(nodes.begin(), nodes.end(),
                   [&](const NodeSnapshot& one) { return one.description.name == node; }))
    return absl::NotFoundError(absl::StrCat("no node \"", node, "\""));
  RETURN_IF_ERROR(store_.PutDrainedNode(node));
  if (drained_nodes_.insert(node).second) LogInfo(absl::StrCat("node ", node, " is drained"), {.node = node});
  return MoveJobsFrom(node, BecauseDrained(node), request.now());
}

absl::StatusOr<v1::LeaveResponse> Orchestrator::Leave(const v1::LeaveRequest& request) {
  MutexLock lock(mutex_);
  if (!cluster_.IsAlive(request.node(), request.incarnation())) return NoLease(request.node());
  v1::LeaveResponse response;
  response.set_leaving_jobs(static_cast<uint32_t>(NoteLeaving(request.node()).leaving_size()));
  return response;
}

v1::DrainNodeResponse Orchestrator::NoteLeaving(const std::string& node) {
  if (leaving_nodes_.insert(node).second)
    LogInfo(absl::StrCat("node ", node, " is about to leave"), {.node = node});
  return MoveJobsFrom(node, absl::StrCat("the agent of node ", node, " is stopped"), /*now=*/false);
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
      active.runner->Abort(JobEvent::kInterrupted, cause);
    }
    journal_.SetWait(
        id, absl::StrCat("leaves node ", node, after_checkpoint ? " after its step and a checkpoint" : ""));
  }
  return response;
}

absl::Status Orchestrator::UndrainNode(const std::string& node) {
  MutexLock lock(mutex_);
  if (drained_nodes_.count(node) == 0) {
    const std::vector<NodeSnapshot> nodes = cluster_.Nodes(Time());
    const bool is_known = std::any_of(nodes.begin(), nodes.end(),
                                      [&](const NodeSnapshot& one) { return one.description.name == node; });
    return is_known ? absl::OkStatus() : absl::NotFoundError(absl::StrCat("no node \"", node, "\""));
  }
  RETURN_IF_ERROR(store_.DeleteDrainedNode(node));
  drained_nodes_.erase(node);
  LogInfo(absl::StrCat("node ", node, " is not drained any more"), {.node = node});
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::Status Orchestrator::ForgetNode(const std::string& node) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(cluster_.Forget(node));
  RETURN_IF_ERROR(store_.DeleteDrainedNode(node));
  drained_nodes_.erase(node);
  suspect_nodes_.erase(node);
  awaited_nodes_.erase(node);
  changed_nodes_.erase(node);
  return store_.ChangeNodes({{node, false}});
}

absl::StatusOr<v1::PlanReport> Orchestrator::Plan(const v1::PlanJobRequest& request,
                                                  const std::function<bool()>& cancelled) {
  const v1::JobSpec& spec = request.spec();
  RETURN_IF_ERROR(CheckJobPaths(spec, options_.allowed_directories));
  ASSIGN_OR_RETURN(const TrainingSpec training, ResolveSpec(spec, ""));
  std::string name;
  std::vector<ClusterDeviceLocation> locations;
  {
    MutexLock lock(mutex_);
    const Round round = LookAround();
    std::vector<std::string> devices = UsableDevices();
    const std::vector<std::string> wanted = WantedDevices(spec);
    if (!wanted.empty()) {
      std::vector<std::string> unknown;
      for (const std::string& device : wanted) {
        if (absl::IsNotFound(cluster_.Find(device).status())) unknown.push_back(device);
      }
      if (!unknown.empty()) {
        return absl::FailedPreconditionError(absl::StrCat(
            spec.has_plan() ? "plan.units" : "constraints.devices", ": ", SomeNames(unknown, kMostNamed),
            unknown.size() == 1 ? " does not exist" : " do not exist", "; there are ",
            round.live.empty() ? "none" : SomeNames(round.live, kMostNamed)));
      }
      const std::set<std::string> are_wanted(wanted.begin(), wanted.end());
      std::erase_if(devices, [&](const std::string& d) { return !are_wanted.contains(d); });
    } else if (!spec.allow_emulated()) {
      const size_t erased =
          std::erase_if(devices, [&](const std::string& d) { return round.emulated.contains(d); });
      if (devices.empty() && erased > 0) {
        return absl::FailedPreconditionError(
            "all devices that are free are emulated, and the job does not have allow_emulated: true");
      }
    }
    if (wanted.empty() && AsksForProtection(spec))
      std::erase_if(devices, [&](const std::string& d) { return round.unprotecting.contains(d); });
    if (devices.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          round.live.empty() ? "no agent is registered"
                             : "no device that the job may use is free; `medley nodes` shows who has them",
          ", and `medley plan --cluster` plans without them"));
    }
    ASSIGN_OR_RETURN(locations, Locate(devices));
    name = absl::StrCat("(dry run ", ++dry_runs_, ")");
    RETURN_IF_ERROR(cluster_.Occupy(devices, name));
  }
  JobRunner runner(Services(), name, locations);
  const absl::Duration time_limit = request.time_limit_seconds() > 0
                                        ? absl::Seconds(request.time_limit_seconds())
                                        : absl::InfiniteDuration();
  const ParetoListing listing = request.with_pareto() ? ParetoListing::kWanted : ParetoListing::kIfNeeded;
  absl::StatusOr<PlannedJob> planned;
  Serve(
      name, runner, [&] { planned = runner.PlanOnly(spec, time_limit, listing); }, cancelled);
  if (!planned.ok()) return planned.status();
  v1::PlanReport report = EncodePlanReport(*planned, PredictionErrors(store_));
  if (request.with_predicted_step())
    *report.mutable_predicted_step() = EncodePredictedStep(*planned, training.shape);
  return report;
}

absl::StatusOr<v1::PlanReport> Orchestrator::PlanOf(const v1::GetPlanRequest& request,
                                                    const std::function<bool()>& cancelled) {
  const std::string& job_id = request.job_id();
  ASSIGN_OR_RETURN(const v1::Job job, journal_.Get(job_id));
  if (!job.has_plan()) return absl::FailedPreconditionError(absl::StrCat("job ", job_id, " has no plan yet"));
  if (job.plan().compared() && !request.with_predicted_step()) return job.plan();
  const absl::StatusOr<v1::PlanGrounds> grounds = store_.GetPlanGrounds(job_id);
  // A plan that an older coordinator made, or a newer plan by now: then this is what is known of it.
  if (absl::IsNotFound(grounds.status()) || (grounds.ok() && grounds->launch() != job.launch()))
    return job.plan();
  RETURN_IF_ERROR(grounds.status());
  ASSIGN_OR_RETURN(const medley::Plan plan, DecodePlan(job.plan().plan()));
  v1::PlanReport report = job.plan();
  if (!report.compared()) {
    JobRunner runner(Services(), job_id, {});
    absl::StatusOr<Explanation> explanation;
    Serve(
        absl::StrCat("(comparison of ", job_id, ")"), runner,
        [&] { explanation = runner.Compare(plan, *grounds); }, cancelled);
    // An older coordinator's profiles may be kept under what this one calls otherwise.
    if (absl::IsFailedPrecondition(explanation.status())) return job.plan();
    RETURN_IF_ERROR(explanation.status());
    report = WithComparison(job.plan(), *explanation);
    (void)journal_.Change(job_id, [&](v1::Job& now) {
      if (now.launch() == job.launch()) *now.mutable_plan() = report;
    });
  }
  if (!request.with_predicted_step()) return report;
  ASSIGN_OR_RETURN(const TrainingSpec training, ResolveSpec(grounds->spec(), job_id));
  ASSIGN_OR_RETURN(JobConstraints constraints, DecodeConstraints(grounds->spec()));
  ASSIGN_OR_RETURN(const Cluster cluster, DecodeCluster(grounds->cluster()));
  constraints.plan = plan;
  constraints.open_activations.clear();
  const absl::StatusOr<PlannedJob> planned = PlanJob(training, constraints, cluster, Comparison::kNone);
  if (absl::IsFailedPrecondition(planned.status())) return report;
  RETURN_IF_ERROR(planned.status());
  *report.mutable_predicted_step() = EncodePredictedStep(*planned, training.shape);
  return report;
}

}  // namespace medley
