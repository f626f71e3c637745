#include "coordinator/orchestrator/orchestrator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/orchestrator/alike_links.h"
#include "coordinator/orchestrator/job_terms.h"
#include "coordinator/orchestrator/node_checks.h"
#include "coordinator/orchestrator/node_kernels.h"
#include "coordinator/orchestrator/spec_planning.h"
#include "coordinator/orchestrator/trace_request.h"
#include "coordinator/problem/planning_problem.h"
#include "coordinator/wire/job_life_codec.h"
#include "coordinator/wire/node_codec.h"
#include "runtime/base/counted.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/log/log.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/job_paths.h"

namespace medley {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
// That an agent may take to open its devices and ask them; those with a compiler of their own take longest.
constexpr absl::Duration kKernelsTime = absl::Minutes(2);
// A job is said to stall when nothing was heard of it for so many predicted steps, and so long.
constexpr double kStepsToStall = 10;
constexpr absl::Duration kLeastStall = absl::Minutes(1);

constexpr const char* kStopping = "the coordinator is stopping";
}  // namespace

Orchestrator::Orchestrator(const Options& options, Store& store, AgentClient& agents)
    : options_(options),
      store_(store),
      agents_(agents),
      journal_(store, *options.clock),
      renewals_(options.lease),
      created_(options.clock->Now()),
      cluster_({.lease = options.lease}),
      ticked_(created_) {}

absl::StatusOr<std::unique_ptr<Orchestrator>> Orchestrator::Create(const Options& options, Store& store,
                                                                   AgentClient& agents) {
  std::unique_ptr<Orchestrator> orchestrator(new Orchestrator(options, store, agents));
  ASSIGN_OR_RETURN(const std::vector<v1::Job> unfinished, store.UnfinishedJobs());
  ASSIGN_OR_RETURN(const std::vector<std::string> nodes, store.ListNodes());
  ASSIGN_OR_RETURN(const std::vector<std::string> drained, store.ListDrainedNodes());
  {
    MutexLock lock(orchestrator->mutex_);
    orchestrator->awaited_nodes_ = {nodes.begin(), nodes.end()};
    orchestrator->lease_of_before_ = LeaseOf(options.lease, nodes.size());
    orchestrator->drained_nodes_ = {drained.begin(), drained.end()};
    // They bring nothing that could be planned with.
    for (const std::string& node : drained) orchestrator->awaited_nodes_.erase(node);
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

void Orchestrator::KeepNodes() {
  std::map<std::string, bool> changed;
  {
    MutexLock lock(mutex_);
    changed.swap(changed_nodes_);
  }
  if (changed.empty()) return;
  if (const absl::Status kept = store_.ChangeNodes(changed); !kept.ok()) {
    LogError(absl::StrCat("which nodes there are is not kept: ", kept.message()));
  }
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

void Orchestrator::ExpireLeases() {
  const absl::Time now = Time();
  // Whoever could not be heard because this process stood still is not to blame.
  const absl::Duration stall = now - ticked_ - kTick;
  if (stall > options_.lease / 3) {
    LogWarning(absl::StrCat("the coordinator stood still for ", absl::FormatDuration(stall),
                            "; leases are longer by that"));
    cluster_.Extend(stall);
  }
  ticked_ = now;
  for (const Renewals::Renewal& renewal : renewals_.Take()) {
    if (!cluster_.Renew(renewal.node, renewal.incarnation, renewal.at, renewal.lease).ok()) continue;
    heard_of_.push_back(cluster_.AgentAddressOf(renewal.node));
    // What came before it did not answer says nothing.
    const auto suspect = suspect_nodes_.find(renewal.node);
    if (suspect != suspect_nodes_.end() && renewal.at > suspect->second) suspect_nodes_.erase(suspect);
  }
  const std::vector<LostNode> lost = cluster_.Expire(now);
  lost_leases_ += lost.size();
  HandleLost(lost, JobEvent::kLost);
}

void Orchestrator::HandleLost(const std::vector<LostNode>& nodes, JobEvent event) {
  for (const LostNode& node : nodes) {
    renewals_.Ended(node.name);
    agents_.Disconnect(node.agent_address);
    suspect_nodes_.erase(node.name);  // it is heard of again before it is used again
    changed_nodes_[node.name] = false;
    LogWarning(absl::StrCat("node ", node.name, " is lost: ", node.reason), {.node = node.name});
    for (const std::string& job : node.jobs) {
      const auto active = active_.find(job);
      if (active == active_.end()) continue;
      active->second.runner->Abort(event, absl::StrCat("node ", node.name, " is lost: ", node.reason));
    }
  }
}

std::vector<std::string> Orchestrator::UsableDevices() {
  std::vector<std::string> devices = cluster_.FreeDevices();
  std::erase_if(devices, [&](const std::string& device) { return !IsUsable(device); });
  return devices;
}

bool Orchestrator::IsUsable(const std::string& device) {
  const std::string node = NodeOf(device);
  return suspect_nodes_.count(node) == 0 && drained_nodes_.count(node) == 0 &&
         leaving_nodes_.count(node) == 0;
}

Orchestrator::Round Orchestrator::LookAround() {
  Round round{.nodes = cluster_.Nodes(Time())};
  for (const NodeSnapshot& node : round.nodes) {
    for (const ClusterDevice& device : node.description.devices) {
      const std::string name = FullName(node.description.name, device);
      if (node.alive) round.live.insert(name);
      if (device.emulated) round.emulated.insert(name);
      if (!node.description.protects_messages) round.unprotecting.insert(name);
    }
    for (const auto& [device, job] : node.jobs) {
      round.holders[absl::StrCat(node.description.name, "/", device)] = job;
      round.users.insert(job);
    }
  }
  return round;
}

absl::StatusOr<std::vector<ClusterDeviceLocation>> Orchestrator::Locate(
    const std::vector<std::string>& devices) {
  std::vector<ClusterDeviceLocation> locations;
  for (const std::string& device : devices) {
    ASSIGN_OR_RETURN(locations.emplace_back(), cluster_.Find(device));
  }
  return locations;
}

bool Orchestrator::StartJob(const std::string& job_id, const std::vector<std::string>& devices) {
  const absl::StatusOr<std::vector<ClusterDeviceLocation>> locations = Locate(devices);
  if (!locations.ok() || !cluster_.Occupy(devices, job_id).ok()) return false;
  (void)journal_.Apply(job_id, JobEvent::kDevicesGranted, absl::StrCat("on ", absl::StrJoin(devices, ", ")));
  tried_in_vain_.erase(job_id);
  Active& active = active_[job_id];
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
  if (active != active_.end()) active->second.devices = {devices.begin(), devices.end()};
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
    for (const std::string& device : outcome.end.unreachable_devices) suspect_nodes_[NodeOf(device)] = Time();
    if (outcome.event == JobEvent::kWaitForDevices) {
      tried_in_vain_[job_id] = {.devices = {active.devices.begin(), active.devices.end()},
                                .cause = outcome.cause};
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

void Orchestrator::StopCalls() {
  MutexLock lock(mutex_);
  calls_stopped_ = true;
  for (JobRunner* runner : serving_) runner->Abort(JobEvent::kLost, kStopping);
}

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

absl::StatusOr<v1::RegisterResponse> Orchestrator::Register(const v1::RegisterRequest& request) {
  ASSIGN_OR_RETURN(const NodeDescription node, DecodeNode(request.node(), request.incarnation()));
  MutexLock lock(mutex_);
  const absl::Time now = Time();
  const bool was_there = cluster_.IsAlive(node.name, node.incarnation);
  ASSIGN_OR_RETURN(const std::vector<LostNode> lost, cluster_.Register(node, now));
  HandleLost(lost, JobEvent::kLost);
  renewals_.Held(node.name, node.incarnation);
  heard_of_.push_back(node.agent_address);
  suspect_nodes_.erase(node.name);
  if (!request.leaving()) leaving_nodes_.erase(node.name);
  awaited_nodes_.erase(node.name);
  if (!was_there) last_news_ = now;
  changed_nodes_[node.name] = true;
  LogInfo(absl::StrCat("node ", node.name, " at ", node.agent_address, " with ",
                       Counted(node.devices.size(), "device")),
          {.node = node.name});

  v1::RegisterResponse response;
  response.set_lease_seconds(absl::ToDoubleSeconds(options_.lease));
  std::set<std::string> wanted;
  for (auto& [id, active] : active_) {
    if (active.ended) continue;
    for (std::string& task : active.runner->TaskIds()) wanted.insert(std::move(task));
    // Whether its thread has begun to listen or not.
    wanted.insert(active.taken_up.begin(), active.taken_up.end());
    std::vector<std::string> devices;  // of this node: a job that was taken up gets them back
    for (const std::string& device : active.devices) {
      if (NodeOf(device) == node.name) devices.push_back(device);
    }
    (void)cluster_.Occupy(devices, id);
    if (devices.empty() || active.taken_up.empty()) continue;
    const bool has_one =
        std::any_of(request.tasks().begin(), request.tasks().end(),
                    [&](const v1::AgentTask& task) { return active.taken_up.count(task.task_id()) > 0; });
    if (!has_one) {
      active.runner->Abort(JobEvent::kLost, absl::StrCat("node ", node.name, ": its agent was started anew"));
    }
  }
  for (JobRunner* runner : serving_) {
    for (std::string& task : runner->TaskIds()) wanted.insert(std::move(task));
  }
  for (const v1::AgentTask& task : request.tasks()) {
    if (wanted.count(task.task_id()) == 0) response.add_stop_tasks(task.task_id());
  }
  // Jobs that were asked to leave it by the coordinator before may not have heard of it.
  if (request.leaving()) (void)NoteLeaving(node.name);
  changed_.NotifyAll();
  return response;
}

absl::StatusOr<absl::Duration> Orchestrator::Renew(const v1::RenewRequest& request) {
  const std::optional<absl::Duration> lease = renewals_.Note(request.node(), request.incarnation(), Time());
  if (lease.has_value()) return *lease;
  return NoLease(request.node());
}

void Orchestrator::Deregister(const v1::DeregisterRequest& request) {
  MutexLock lock(mutex_);
  HandleLost(cluster_.Leave(request.node(), request.incarnation()), JobEvent::kInterrupted);
  changed_.NotifyAll();
}

std::vector<v1::Node> Orchestrator::Nodes() {
  MutexLock lock(mutex_);
  std::vector<v1::Node> nodes;
  for (const NodeSnapshot& node : cluster_.Nodes(Time())) {
    nodes.push_back(EncodeNode(node));
    nodes.back().set_drained(drained_nodes_.count(node.description.name) > 0);
  }
  return nodes;
}

Orchestrator::Leases Orchestrator::CountLeases() {
  MutexLock lock(mutex_);
  Leases leases{.lost = lost_leases_};
  std::vector<NodeSnapshot> nodes = cluster_.Nodes(Time());
  std::erase_if(nodes, [](const NodeSnapshot& node) { return !node.alive; });
  leases.held = static_cast<int>(nodes.size());
  const absl::Duration late = LeaseOf(options_.lease, nodes.size()) * 2 / 3;
  for (const NodeSnapshot& node : nodes) leases.expiring += node.since_renewal > late ? 1 : 0;
  return leases;
}

absl::StatusOr<std::vector<v1::DeviceProfile>> Orchestrator::Profiles() {
  std::set<std::string> kinds;
  for (const v1::Node& node : Nodes()) {
    for (const v1::Device& device : node.devices()) kinds.insert(device.kind());
  }
  ASSIGN_OR_RETURN(std::vector<v1::DeviceProfile> profiles, store_.ListProfiles());
  std::erase_if(profiles,
                [&](const v1::DeviceProfile& profile) { return kinds.count(profile.device_kind()) == 0; });
  return profiles;
}

absl::StatusOr<v1::ListKernelsResponse> Orchestrator::Kernels(const std::string& node) {
  return ListKernels(Nodes(), node, agents_, Now() + kKernelsTime);
}

absl::StatusOr<v1::CheckNodesResponse> Orchestrator::CheckNodes(const v1::CheckNodesRequest& request) {
  return medley::CheckNodes(Nodes(), request, agents_, Now() + kKernelsTime);
}

absl::StatusOr<v1::GetStacksResponse> Orchestrator::Stacks(const std::string& job_id) {
  ASSIGN_OR_RETURN(const v1::Job job, journal_.Get(job_id));
  return StacksOf(job, agents_, Now() + kKernelsTime);
}

absl::Status Orchestrator::TraceSteps(const v1::TraceStepsRequest& request,
                                      const std::function<bool(const v1::TraceStepsUpdate&)>& update,
                                      const std::function<bool()>& cancelled) {
  ASSIGN_OR_RETURN(const v1::Job job, journal_.Get(request.job_id()));
  const auto live = std::make_shared<LiveTrace>(job.tasks_size());
  {
    MutexLock lock(mutex_);
    const auto active = active_.find(job.id());
    if (job.state() != v1::JOB_STATE_RUNNING || active == active_.end() || active->second.ended)
      return absl::FailedPreconditionError(absl::StrCat("job ", job.id(), " does not run"));
    RETURN_IF_ERROR(active->second.runner->FeedTrace(live));
  }
  LogInfo(absl::StrCat(Counted(request.steps(), "step"), " to be traced"),
          {.job = job.id(), .attempt = job.attempt()});
  const absl::Status status = ServeTrace(job, request.steps(), agents_, *live, update, cancelled);
  live->Close();
  return status;
}

absl::StatusOr<v1::ClusterSpec> Orchestrator::ExportCluster() {
  v1::ClusterSpec cluster;
  for (v1::Node& node : Nodes()) {
    if (node.alive()) *cluster.add_nodes() = std::move(node);
  }
  ASSIGN_OR_RETURN(const std::vector<v1::DeviceProfile> profiles, store_.ListProfiles());
  cluster.mutable_profiles()->Add(profiles.begin(), profiles.end());
  ASSIGN_OR_RETURN(const std::vector<v1::HostSlowdown> slowdowns, store_.ListHostSlowdowns());
  cluster.mutable_slowdowns()->Add(slowdowns.begin(), slowdowns.end());
  ASSIGN_OR_RETURN(const KnownLinks links, Links({}));
  if (links.devices.size() <= kMostDevicesByLink) {
    links.table.ForEachAmong(links.devices, [&](const v1::LinkProfile& link) {
      *cluster.add_links() = link;
      return true;
    });
    return cluster;
  }
  // With the sites and racks that nodes in `cluster` have, by which classes of links are said.
  Cluster alike;
  for (const v1::Node& node : cluster.nodes())
    alike.nodes.push_back({.name = node.name(), .site = node.site(), .rack = node.rack()});
  RETURN_IF_ERROR(AddLinks(links.table, links.devices, alike));
  v1::ClusterSpec encoded = EncodeCluster(alike);
  cluster.mutable_links()->Swap(encoded.mutable_links());
  cluster.mutable_link_classes()->Swap(encoded.mutable_link_classes());
  return cluster;
}

}  // namespace medley
