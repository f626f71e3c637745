// Calls that plan or measure, for seconds or minutes, while somebody waits for the answer: they hold devices under a name of their own, and
// end when nobody waits any more, or the coordinator stops.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/job_terms.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/orchestrator/prediction_record.h"
#include "coordinator/orchestrator/spec_planning.h"
#include "coordinator/problem/planned_job.h"
#include "coordinator/problem/planning_problem.h"
#include "coordinator/wire/plan_report_codec.h"
#include "coordinator/wire/predicted_step_codec.h"
#include "runtime/base/some_names.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/job_paths.h"
#include "runtime/wire/plan_codec.h"

namespace medley {

void Orchestrator::Serve(const std::string& name, JobRunner& runner, const std::function<void()>& work,
                         const std::function<bool()>& cancelled) {
  bool done = false;
  std::thread watch;
  {
    MutexLock lock(mutex_);
    if (calls_stopped_) runner.Abort(JobEvent::kLost, kStopping);
    serving_.insert(&runner);
    if (cancelled) {
      watch = std::thread([&] {
        MutexLock watching(mutex_);
        while (!changed_.WaitUntil(mutex_, Now() + kTick, [&] { return done; })) {
          if (cancelled()) runner.Abort(JobEvent::kCancelled, "nobody waits for the answer any more");
        }
      });
    }
  }
  work();
  {
    MutexLock lock(mutex_);
    done = true;
    serving_.erase(&runner);
    cluster_.Release(name);
    changed_.NotifyAll();
  }
  if (watch.joinable()) watch.join();
}

void Orchestrator::StopCalls() {
  MutexLock lock(mutex_);
  calls_stopped_ = true;
  for (JobRunner* runner : serving_) runner->Abort(JobEvent::kLost, kStopping);
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
    ClusterRound round = LookAround(cluster_.Nodes(Time()));
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
    if (const uint32_t most = spec.scheduling().most_devices(); most > 0 && !spec.has_plan()) {
      ASSIGN_OR_RETURN(const auto fastest, FastestFirst(ShapeKey(training), round));
      const WaitingJob job{.devices = devices, .least = 1, .most = most, .preferred = fastest};
      devices = NextToStart({job}, devices)->devices;
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
  const absl::StatusOr<PlannedJob> planned = PlannedFrom(*grounds, training, plan);
  if (absl::IsFailedPrecondition(planned.status())) return report;
  RETURN_IF_ERROR(planned.status());
  *report.mutable_predicted_step() = EncodePredictedStep(*planned, training.shape);
  return report;
}

}  // namespace medley
