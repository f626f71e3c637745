// What the orchestrator does so that a running job goes on under a better plan.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/jobs/replan_decision.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/orchestrator/spec_planning.h"
#include "runtime/base/status_macros.h"
#include "runtime/log/log.h"

namespace medley {
namespace {

// The pause that is supposed of a job that has not told how long its launch took.
constexpr double kUsualPauseSeconds = 30;

}  // namespace

absl::StatusOr<Orchestrator::Growth> Orchestrator::PrepareGrowth(const std::string& job_id) {
  Growth growth;
  ASSIGN_OR_RETURN(growth.job, journal_.Get(job_id));
  const v1::JobSpec& spec = growth.job.spec();
  const auto active = active_.find(job_id);
  if (active == active_.end() || active->second.ended || growth.job.state() != v1::JOB_STATE_RUNNING) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job_id, " does not run"));
  }
  if (spec.has_plan())
    return absl::FailedPreconditionError(absl::StrCat("job ", job_id, ": its spec names its plan"));
  if (spec.checkpoint().directory().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_id, " has no checkpoint.directory: it would begin from the start"));
  }
  const std::vector<std::string> own(active->second.devices.begin(), active->second.devices.end());
  ASSIGN_OR_RETURN(growth.own, Locate(own));
  const ClusterRound round = LookAround(cluster_.Nodes(Time()));
  std::vector<std::string> free = UsableDevices();
  const std::set<std::string> named(spec.constraints().devices().begin(), spec.constraints().devices().end());
  std::erase_if(free, [&](const std::string& device) {
    const bool emulated = round.emulated.contains(device);
    const bool unprotecting = growth.job.plan().message_protection() > v1::MESSAGE_PROTECTION_NONE &&
                              round.unprotecting.contains(device);
    return (!named.empty() && named.count(device) == 0) || (emulated && !spec.allow_emulated()) ||
           unprotecting;
  });
  const size_t most = spec.scheduling().most_devices();
  if (most > 0) free.resize(std::min(free.size(), most - std::min(most, own.size())));
  ASSIGN_OR_RETURN(growth.free, Locate(free));
  // Each has a name of its own: what one of them gives back may be another's otherwise.
  growth.name = absl::StrCat("(replan ", ++dry_runs_, " of ", job_id, ")");
  RETURN_IF_ERROR(cluster_.Occupy(free, growth.name));
  return growth;
}

absl::StatusOr<v1::ReplanJobResponse> Orchestrator::Decide(const Growth& growth, bool force,
                                                           const std::function<bool()>& cancelled) {
  const v1::Job& job = growth.job;
  JobRunner runner(Services(), growth.name, growth.free);
  const JobSoFar so_far = SoFarOf(job, job.last_step().step());
  absl::StatusOr<JobRunner::PlanBesideOthers> beside;
  Serve(
      growth.name, runner, [&] { beside = runner.PlanBeside(job.spec(), growth.own, so_far); }, cancelled);
  RETURN_IF_ERROR(beside.status());
  const PlannedJob& planned = beside->planned;
  // Both by what is known now: what slows the plan that runs slows the other one, too.
  const JobJournal::Pace pace = journal_.PaceOf(job.id());
  ReplanQuestion question{
      .measured_step_seconds = pace.step_seconds > 0 ? pace.step_seconds : job.measured_step_seconds(),
      .predicted_step_seconds = beside->running_step_seconds > 0 ? beside->running_step_seconds
                                                                 : job.plan().predicted_step_seconds(),
      .predicted_then_step_seconds = planned.prediction.step_seconds,
      .remaining_steps = static_cast<int64_t>(job.spec().steps()) - job.last_step().step(),
      .pause_seconds = job.launch_seconds() > 0 ? job.launch_seconds() : kUsualPauseSeconds};
  if (growth.for_speeds) question.steps_so_far = pace.steps;
  const ReplanDecision decision = DecideReplan(question);
  v1::ReplanJobResponse response;
  response.set_step_seconds_now(decision.now_step_seconds);
  response.set_step_seconds_then(decision.then_step_seconds);
  response.set_replans(decision.worth_it || force);
  response.set_decision(absl::StrCat(response.replans() ? "planned anew" : "stays as it is", ": ",
                                     decision.text, " (", medley::Describe(planned.plan), ")"));
  journal_.Log(job.id(), "coordinator", response.decision());
  MutexLock lock(mutex_);
  const auto active = active_.find(job.id());
  if (response.replans()) {
    if (active == active_.end() || active->second.ended) {
      return absl::FailedPreconditionError(absl::StrCat("job ", job.id(), " does not run any more"));
    }
    active->second.runner->FinishEarly(JobEvent::kInterrupted, response.decision());
  }
  ASSIGN_OR_RETURN(*response.mutable_job(), journal_.Get(job.id()));
  return response;
}

absl::StatusOr<v1::ReplanJobResponse> Orchestrator::Replan(const v1::ReplanJobRequest& request,
                                                           const std::function<bool()>& cancelled) {
  absl::StatusOr<Growth> growth;
  {
    MutexLock lock(mutex_);
    growth = PrepareGrowth(request.job_id());
  }
  RETURN_IF_ERROR(growth.status());
  return Decide(*growth, request.force(), cancelled);
}

// At each checkpoint a job is asked for whether another plan is worth the pause: once for devices that are free now, and that nobody waits
// for; and whenever its traced steps have told that devices are faster or slower than it was planned for.
void Orchestrator::GrowJobs() {
  std::erase_if(growing_, [](const auto& growing) {
    if (!growing.second->ended) return false;
    growing.second->thread.join();
    return true;
  });
  if (calls_stopped_ || stopping_ || active_.empty() || SomeJobCouldStart()) return;
  const int first_waiting = HighestWaitingPriority();
  for (auto& [id, active] : active_) {
    if (active.ended || growing_.contains(id)) continue;
    bool is_time = false;
    (void)journal_.Look(id, [&](const v1::Job& job) {
      // What it gave back, for a moment, would be another's.
      if (first_waiting > job.spec().scheduling().priority()) return;
      is_time = job.state() == v1::JOB_STATE_RUNNING && job.checkpoint_step() > active.looked_at_checkpoint &&
                job.measured_step_seconds() != 0;
      if (is_time) active.looked_at_checkpoint = job.checkpoint_step();
    });
    if (!is_time) continue;
    absl::StatusOr<Growth> growth = PrepareGrowth(id);
    if (!growth.ok()) continue;
    std::set<std::string> free;
    for (const ClusterDeviceLocation& device : growth->free) free.insert(FullName(device));
    const bool has_room =
        !std::includes(active.grown_over.begin(), active.grown_over.end(), free.begin(), free.end());
    const int lessons = active.runner->lessons();
    if (!has_room && lessons == active.lessons_asked_for) {
      cluster_.Release(growth->name);
      continue;
    }
    growth->for_speeds = !has_room;
    active.lessons_asked_for = lessons;
    active.grown_over.insert(free.begin(), free.end());
    Growing* const one = (growing_[id] = std::make_unique<Growing>()).get();
    one->thread = std::thread([this, one, growth = *std::move(growth)] {
      const absl::StatusOr<v1::ReplanJobResponse> decided =
          Decide(growth, /*force=*/false, /*cancelled=*/nullptr);
      if (!decided.ok())
        LogWarning(absl::StrCat("it is not planned anew: ", decided.status().message()),
                   {.job = growth.job.id(), .attempt = growth.job.attempt()});
      one->ended = true;
    });
  }
}

}  // namespace medley
