#include "coordinator/orchestrator/orchestrator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/job_terms.h"
#include "runtime/base/status_macros.h"

namespace medley {

Orchestrator::Orchestrator(const Options& options, Store& store, AgentClient& agents)
    : options_(options),
      store_(store),
      agents_(agents),
      journal_(store, *options.clock),
      renewals_(options.lease),
      cluster_({.lease = options.lease}),
      ticked_(options.clock->Now()),
      arrivals_(options.settle, ticked_) {}

absl::StatusOr<std::unique_ptr<Orchestrator>> Orchestrator::Create(const Options& options, Store& store,
                                                                   AgentClient& agents) {
  std::unique_ptr<Orchestrator> orchestrator(new Orchestrator(options, store, agents));
  ASSIGN_OR_RETURN(const std::vector<v1::Job> unfinished, store.UnfinishedJobs());
  ASSIGN_OR_RETURN(const std::vector<Store::KnownNode> nodes, store.ListNodes());
  ASSIGN_OR_RETURN(const std::vector<std::string> drained, store.ListDrainedNodes());
  {
    MutexLock lock(orchestrator->mutex_);
    orchestrator->TakeUpNodes(nodes);
    orchestrator->standing_.SetDrained({drained.begin(), drained.end()});
    // They bring nothing that could be planned with.
    for (const std::string& node : drained) orchestrator->arrivals_.AwaitNoMore(node);
    for (const v1::Job& job : unfinished) {
      if (job.state() == v1::JOB_STATE_RUNNING && job.tasks_size() > 0) {
        orchestrator->TakeUp(job);
        continue;
      }
      const absl::StatusOr<v1::Job> after =
          job.asked_to_end() == v1::JOB_ENDING_UNSPECIFIED
              ? orchestrator->journal_.Apply(job.id(), JobEvent::kInterrupted,
                                             "the coordinator was restarted before it trained")
              : orchestrator->journal_.Apply(job.id(), JobEvent::kCancelled, kCancelledByUser);
      if (Waits(after)) orchestrator->waiting_.push_back(job.id());
    }
    // Jobs that were asked to leave these may not have heard of it.
    for (const std::string& node : drained)
      (void)orchestrator->MoveJobsFrom(node, BecauseDrained(node), /*now=*/false);
  }
  if (options.own_thread) orchestrator->loop_ = std::thread([o = orchestrator.get()] { o->Loop(); });
  return orchestrator;
}

void Orchestrator::Loop() {
  absl::Time flushed = Now();
  while (true) {
    Tick();
    if (Now() - flushed >= JobJournal::kFlushEvery) {
      journal_.Flush();
      flushed = Now();
    }
    MutexLock lock(mutex_);
    changed_.WaitUntil(mutex_, Now() + kTick, [&] { return stopping_; });
    if (stopping_) return;
  }
}

void Orchestrator::Tick() {
  std::vector<std::thread> ended;
  std::vector<std::string> agents;
  {
    MutexLock lock(mutex_);
    ExpireLeases();
    ended = TakeEndedThreads();
    if (!stopping_) {
      StartWaitingJobs();
      WatchForStalls();
      RepeatWishes();
      GrowJobs();
    }
    agents.swap(heard_of_);
  }
  for (const std::string& agent : agents) agents_.KeepConnected(agent);
  KeepNodes();
  for (std::thread& thread : ended) thread.join();
}

Orchestrator::~Orchestrator() {
  std::map<std::string, std::unique_ptr<Growing>> growing;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    for (auto& [id, active] : active_) active.runner->Leave();
    for (JobRunner* runner : serving_) runner->Abort(JobEvent::kInterrupted, kStopping);
    growing.swap(growing_);
  }
  if (loop_.joinable()) loop_.join();
  for (auto& [id, one] : growing) one->thread.join();
  std::map<std::string, Active> active;
  {
    MutexLock lock(mutex_);
    active.swap(active_);
  }
  for (auto& [id, a] : active) a.thread.join();
  journal_.Flush();
  KeepNodes();
}

}  // namespace medley
