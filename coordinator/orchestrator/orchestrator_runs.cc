// Jobs that run, each in a thread of its own: how a run begins, or is taken up where an earlier coordinator left it, what is looked after
// meanwhile, and what becomes of the job after it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/orchestrator/job_terms.h"
#include "coordinator/orchestrator/orchestrator.h"

namespace medley {
namespace {

// A job is said to stall when nothing was heard of it for so many predicted steps, and so long.
constexpr double kStepsToStall = 10;
constexpr absl::Duration kLeastStall = absl::Minutes(1);

}  // namespace

bool Orchestrator::StartJob(const std::string& job_id, const std::vector<std::string>& devices) {
  const absl::StatusOr<std::vector<ClusterDeviceLocation>> locations = Locate(devices);
  if (!locations.ok() || !cluster_.Occupy(devices, job_id).ok()) return false;
  (void)journal_.Apply(job_id, JobEvent::kDevicesGranted, absl::StrCat("on ", absl::StrJoin(devices, ", ")));
  Active& active = active_[job_id];
  if (const auto tried = tried_in_vain_.find(job_id); tried != tried_in_vain_.end()) {
    active.tried = std::move(tried->second.devices);
    tried_in_vain_.erase(tried);
  }
  active.devices = {devices.begin(), devices.end()};
  active.runner = std::make_unique<JobRunner>(
      JobRunner::Services{
          .store = store_,
          .journal = journal_,
          .agents = agents_,
          .planned = [this, job_id](const std::vector<std::string>& used) { KeepOnly(job_id, used); },
          .least_protection = options_.message_protection},
      job_id, *locations);
  active.thread =
      std::thread([this, job_id, runner = active.runner.get()] { Settle(job_id, *runner, runner->Run()); });
  return true;
}

// Its nodes come back one by one: their devices are the job's as they do.
void Orchestrator::TakeUp(const v1::Job& job) {
  Active& active = active_[job.id()];
  for (const v1::LaunchedTask& task : job.tasks()) {
    active.taken_up.insert(task.task_id());
    active.devices.insert(task.device());
  }
  active.looked_at_checkpoint = job.checkpoint_step();
  active.runner = std::make_unique<JobRunner>(Services(), job.id(), std::vector<ClusterDeviceLocation>());
  journal_.Log(job.id(), "coordinator", "the coordinator was restarted; the job is taken up where it is");
  End(job.id(), job.asked_to_end(), *active.runner);
  active.thread = std::thread([this, job, runner = active.runner.get()] {
    Settle(job.id(), *runner, runner->TakeUp(job, 2 * options_.lease));
  });
}

// What its plan does not use is free for others.
void Orchestrator::KeepOnly(const std::string& job_id, const std::vector<std::string>& devices) {
  MutexLock lock(mutex_);
  cluster_.Release(job_id);
  (void)cluster_.Occupy(devices, job_id);
  const auto active = active_.find(job_id);
  if (active == active_.end()) return;
  const std::set<std::string> used(devices.begin(), devices.end());
  for (const std::string& device : active->second.devices) {
    if (!used.contains(device)) active->second.grown_over.insert(device);  // it was just planned with these
  }
  active->second.devices = used;
}

// An agent may not have been reached when a job was asked to finish early.
void Orchestrator::RepeatWishes() {
  for (auto& [id, active] : active_) {
    if (!active.ended) active.runner->RepeatWish();
  }
}

// A worker that gets nothing done is its agent's to end; that a job stands still is said here.
void Orchestrator::WatchForStalls() {
  for (auto& [id, active] : active_) {
    const absl::Time heard = active.runner->LastHeard();
    if (active.ended || heard == absl::InfinitePast()) continue;
    double step = 0;
    const absl::Status looked = journal_.Look(id, [&](const v1::Job& job) {
      step = std::max(job.plan().predicted_step_seconds(), job.measured_step_seconds());
    });
    if (!looked.ok()) continue;
    const absl::Duration silence = Now() - heard;
    const bool stalls = silence > std::max(kLeastStall, absl::Seconds(kStepsToStall * step));
    if (stalls && !active.stall_told) {
      journal_.Log(id, "coordinator",
                   absl::StrCat("nothing was heard of the training for ",
                                absl::FormatDuration(absl::Trunc(silence, absl::Seconds(1))),
                                absl::StrFormat("; a step is expected to take %.3g s", step)));
    }
    active.stall_told = stalls;
  }
}

// What becomes of a job after a run. The devices are free again before the job can be seen as ended.
void Orchestrator::Settle(const std::string& job_id, JobRunner& runner, RunOutcome outcome) {
  MutexLock lock(mutex_);
  Active& active = active_[job_id];
  if (!outcome.left) {
    // The wish came while the run was ending.
    if (outcome.event != JobEvent::kFinished && runner.cancelled()) {
      outcome = {.event = JobEvent::kCancelled, .cause = kCancelledByUser, .end = outcome.end};
    }
    bool was_to_end = false;
    (void)journal_.Look(
        job_id, [&](const v1::Job& job) { was_to_end = job.asked_to_end() != v1::JOB_ENDING_UNSPECIFIED; });
    if (was_to_end && (outcome.event == JobEvent::kLost || outcome.event == JobEvent::kInterrupted)) {
      // To train on until there is another checkpoint is not what the user asked for.
      outcome.event = JobEvent::kCancelled;
      outcome.cause = absl::StrCat("stopped by the user; no checkpoint was saved then: ", outcome.cause);
    }
    cluster_.Release(job_id);
    for (const std::string& device : outcome.end.unreachable_devices)
      standing_.Suspect(NodeOf(device), Time());
    if (outcome.event == JobEvent::kWaitForDevices) {
      InVain& in_vain = tried_in_vain_[job_id] = {.devices = {active.devices.begin(), active.devices.end()},
                                                  .cause = outcome.cause};
      bool takes_some = false;
      (void)journal_.Look(
          job_id, [&](const v1::Job& job) { takes_some = job.spec().scheduling().most_devices() > 0; });
      // It would take the same ones in turn for ever. Who takes all that are free may do with some of them and others.
      if (takes_some) in_vain.devices.insert(in_vain.devices.end(), active.tried.begin(), active.tried.end());
    }
    const absl::StatusOr<v1::Job> after = journal_.Apply(job_id, outcome.event, outcome.cause);
    if (Waits(after)) {
      const int lost =
          outcome.event == JobEvent::kLost ? static_cast<int>(after->restarts_without_progress()) : 0;
      not_before_[job_id] =
          Time() + (outcome.end.store_failed ? options_.back_off : BackOff(lost, options_.back_off));
      waiting_.insert(waiting_.begin(), job_id);  // it came first
    } else {
      not_before_.erase(job_id);
      tried_in_vain_.erase(job_id);
    }
  }
  active.ended = true;
  changed_.NotifyAll();
}

std::vector<std::thread> Orchestrator::TakeEndedThreads() {
  std::vector<std::thread> threads;
  for (auto it = active_.begin(); it != active_.end();) {
    if (!it->second.ended) {
      ++it;
      continue;
    }
    threads.push_back(std::move(it->second.thread));
    it = active_.erase(it);
  }
  return threads;
}

}  // namespace medley
