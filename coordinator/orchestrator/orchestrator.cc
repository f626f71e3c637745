#include "coordinator/orchestrator/orchestrator.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cluster/node_codec.h"
#include "coordinator/jobs/job_life_codec.h"
#include "coordinator/jobs/job_queue.h"
#include "coordinator/orchestrator/node_kernels.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
// That an agent may take to open its devices and ask them; those with a compiler of their own take longest.
constexpr absl::Duration kKernelsTime = absl::Minutes(2);

std::string NodeOf(const std::string& device) { return device.substr(0, device.find('/')); }

constexpr const char* kStopping = "the coordinator is stopping";

constexpr const char* kAnd = "; ";
constexpr const char* kWaitsFor = "waits for ";

// A job's reason without the devices that it was said to wait for.
std::string WithoutWait(const std::string& reason) {
  if (reason.compare(0, std::strlen(kWaitsFor), kWaitsFor) == 0) return "";
  return reason.substr(0, reason.rfind(absl::StrCat(kAnd, kWaitsFor)));
}

}  // namespace

Orchestrator::Orchestrator(const Options& options, Store& store, AgentClient& agents)
    : store_(store), agents_(agents), journal_(store), cluster_({.lease = options.lease}) {}

absl::StatusOr<std::unique_ptr<Orchestrator>> Orchestrator::Create(const Options& options, Store& store,
                                                                   AgentClient& agents) {
  std::unique_ptr<Orchestrator> orchestrator(new Orchestrator(options, store, agents));
  ASSIGN_OR_RETURN(const std::vector<v1::Job> unfinished, store.UnfinishedJobs());
  {
    MutexLock lock(orchestrator->mutex_);
    for (const v1::Job& job : unfinished) {
      const absl::StatusOr<v1::Job> after =
          orchestrator->journal_.Apply(job.id(), JobEvent::kLost, "the coordinator was restarted while it ran");
      const bool waits = after.ok() && (after->state() == v1::JOB_STATE_QUEUED || after->state() == v1::JOB_STATE_RECOVERING);
      if (waits) orchestrator->waiting_.push_back(job.id());
    }
  }
  orchestrator->loop_ = std::thread([o = orchestrator.get()] { o->Loop(); });
  return orchestrator;
}

Orchestrator::~Orchestrator() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    for (auto& [id, active] : active_) active.runner->Abort(JobEvent::kLost, "the coordinator was stopped while it ran");
  }
  if (loop_.joinable()) loop_.join();
  std::map<std::string, Active> active;
  {
    MutexLock lock(mutex_);
    active.swap(active_);
  }
  for (auto& [id, a] : active) a.thread.join();
  journal_.Flush();
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
  {
    MutexLock lock(mutex_);
    ExpireLeases();
    ended = TakeEndedThreads();
    if (!stopping_) StartWaitingJobs();
  }
  for (std::thread& thread : ended) thread.join();
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

void Orchestrator::ExpireLeases() { HandleLost(cluster_.Expire(Now())); }

void Orchestrator::HandleLost(const std::vector<LostNode>& nodes) {
  for (const LostNode& node : nodes) {
    spdlog::warn("node {} is lost: {}", node.name, node.reason);
    for (const std::string& job : node.jobs) {
      const auto active = active_.find(job);
      if (active == active_.end()) continue;
      active->second.runner->Abort(JobEvent::kLost, absl::StrCat("node ", node.name, " is lost: ", node.reason));
    }
  }
}

std::vector<std::string> Orchestrator::UsableDevices() {
  std::vector<std::string> devices = cluster_.FreeDevices();
  std::erase_if(devices, [&](const std::string& device) { return suspect_nodes_.count(NodeOf(device)) > 0; });
  return devices;
}

// Emulated ones, unless the job is a rehearsal.
std::vector<std::string> Orchestrator::ForbiddenDevices(const v1::JobSpec& spec) {
  std::vector<std::string> forbidden;
  if (spec.allow_emulated()) return forbidden;
  for (const NodeSnapshot& node : cluster_.Nodes(Now())) {
    for (const ClusterDevice& device : node.description.devices) {
      if (device.emulated) forbidden.push_back(absl::StrCat(node.description.name, "/", device.description.name));
    }
  }
  return forbidden;
}

// A pinned plan needs exactly its devices. Devices that a job merely may use are taken as they are there, so that it goes on
// with what is left of them.
std::vector<std::string> Orchestrator::WantedDevices(const v1::JobSpec& spec) {
  std::vector<std::string> wanted;
  if (spec.has_plan()) {
    for (const v1::Unit& unit : spec.plan().units()) wanted.insert(wanted.end(), unit.devices().begin(), unit.devices().end());
    return wanted;
  }
  for (const std::string& device : spec.constraints().devices()) {
    if (cluster_.Find(device).ok() && suspect_nodes_.count(NodeOf(device)) == 0) wanted.push_back(device);
  }
  if (wanted.empty()) wanted.assign(spec.constraints().devices().begin(), spec.constraints().devices().end());
  return wanted;
}

void Orchestrator::StartWaitingJobs() {
  std::vector<WaitingJob> jobs;
  for (const std::string& id : waiting_) {
    const absl::StatusOr<v1::Job> job = journal_.Get(id);
    if (!job.ok()) continue;
    const auto tried = tried_in_vain_.find(id);
    jobs.push_back({.id = id,
                    .devices = WantedDevices(job->spec()),
                    .tried_in_vain = tried == tried_in_vain_.end() ? std::vector<std::string>() : tried->second,
                    .never = ForbiddenDevices(job->spec())});
  }
  std::vector<std::string> free = UsableDevices();
  while (const std::optional<Grant> grant = NextToStart(jobs, free)) {
    StartJob(grant->job, grant->devices);
    std::erase_if(jobs, [&](const WaitingJob& job) { return job.id == grant->job; });
    std::erase(waiting_, grant->job);
    free = UsableDevices();
  }
  for (const WaitingJob& job : jobs) NoteMissing(job, free);
}

// Says in the job's reason which of the devices that it names keep it waiting.
void Orchestrator::NoteMissing(const WaitingJob& waiting, const std::vector<std::string>& free) {
  std::vector<std::string> missing;
  for (const std::string& device : waiting.devices) {
    if (std::find(free.begin(), free.end(), device) != free.end()) continue;
    const bool there = cluster_.Find(device).ok() && suspect_nodes_.count(NodeOf(device)) == 0;
    missing.push_back(absl::StrCat(device, there ? " (in use)" : " (not there)"));
  }
  const absl::StatusOr<v1::Job> job = journal_.Get(waiting.id);
  if (!job.ok()) return;
  std::string reason = WithoutWait(job->state_reason());
  if (!missing.empty()) {
    absl::StrAppend(&reason, reason.empty() ? "" : kAnd, kWaitsFor, absl::StrJoin(missing, ", "));
  }
  const bool only_forbidden =
      !free.empty() && std::all_of(free.begin(), free.end(), [&](const std::string& device) {
        return std::find(waiting.never.begin(), waiting.never.end(), device) != waiting.never.end();
      });
  if (waiting.devices.empty() && only_forbidden) {
    absl::StrAppend(&reason, reason.empty() ? "" : kAnd, kWaitsFor,
                    "a device that is not emulated: the job does not have allow_emulated: true");
  }
  if (reason == job->state_reason()) return;
  (void)journal_.Change(waiting.id, [&](v1::Job& j) { j.set_state_reason(reason); });
}

absl::StatusOr<std::vector<ClusterDeviceLocation>> Orchestrator::Locate(const std::vector<std::string>& devices) {
  std::vector<ClusterDeviceLocation> locations;
  for (const std::string& device : devices) {
    ASSIGN_OR_RETURN(locations.emplace_back(), cluster_.Find(device));
  }
  return locations;
}

void Orchestrator::StartJob(const std::string& job_id, const std::vector<std::string>& devices) {
  const absl::StatusOr<std::vector<ClusterDeviceLocation>> locations = Locate(devices);
  const absl::Status occupied = locations.ok() ? cluster_.Occupy(devices, job_id) : locations.status();
  if (!occupied.ok()) {  // a node went this very moment: try again with the next tick
    waiting_.insert(waiting_.begin(), job_id);
    return;
  }
  (void)journal_.Apply(job_id, JobEvent::kDevicesGranted, absl::StrCat("on ", absl::StrJoin(devices, ", ")));
  Active& active = active_[job_id];
  active.runner = std::make_unique<JobRunner>(
      JobRunner::Services{.store = store_, .journal = journal_, .agents = agents_}, job_id, *locations);
  active.thread = std::thread([this, job_id, runner = active.runner.get()] { RunJob(job_id, *runner); });
}

void Orchestrator::RunJob(const std::string& job_id, JobRunner& runner) {
  Settle(job_id, runner, runner.Run());
}

// Whether there are devices that the job may use beside those that it was given.
bool Orchestrator::MoreMayCome(const v1::Job& job, const std::vector<ClusterDeviceLocation>& given) {
  if (job.restarts() > 0) return true;
  std::set<std::string> devices(job.spec().constraints().devices().begin(), job.spec().constraints().devices().end());
  if (devices.empty()) {
    for (const NodeSnapshot& node : cluster_.Nodes(Now())) {
      if (!node.alive) continue;
      for (const ClusterDevice& device : node.description.devices) {
        devices.insert(absl::StrCat(node.description.name, "/", device.description.name));
      }
    }
  }
  for (const ClusterDeviceLocation& device : given) devices.erase(FullName(device));
  for (const std::string& device : ForbiddenDevices(job.spec())) devices.erase(device);
  return !devices.empty();
}

// What becomes of a job after a run. The devices are free again before the job can be seen as ended.
void Orchestrator::Settle(const std::string& job_id, JobRunner& runner, RunOutcome outcome) {
  MutexLock lock(mutex_);
  if (outcome.event != JobEvent::kFinished && runner.cancelled()) {  // the wish came while the run was ending
    outcome = {.event = JobEvent::kCancelled, .cause = "cancelled by the user", .end = outcome.end};
  }
  JobEvent event = outcome.event;
  cluster_.Release(job_id);
  for (const std::string& device : outcome.end.unreachable_devices) suspect_nodes_.insert(NodeOf(device));
  if (event == JobEvent::kWaitForDevices) {
    std::vector<std::string>& tried = tried_in_vain_[job_id];
    tried.clear();
    for (const ClusterDeviceLocation& device : runner.devices()) tried.push_back(FullName(device));
    // With nothing left to wait for, a job that does not fit has failed. A job that had more devices before waits for them.
    const absl::StatusOr<v1::Job> job = journal_.Get(job_id);
    if (!job.ok() || !MoreMayCome(*job, runner.devices())) event = JobEvent::kRefused;
  }
  const absl::StatusOr<v1::Job> after = journal_.Apply(job_id, event, outcome.cause);
  if (after.ok() && (after->state() == v1::JOB_STATE_QUEUED || after->state() == v1::JOB_STATE_RECOVERING)) {
    waiting_.insert(waiting_.begin(), job_id);  // it came first
  }
  active_[job_id].ended = true;
  changed_.NotifyAll();
}

absl::StatusOr<v1::Job> Orchestrator::Submit(const v1::SubmitJobRequest& request) {
  RETURN_IF_ERROR(ResolveSpec(request.spec(), "").status());
  ASSIGN_OR_RETURN(const v1::Job job, store_.InsertJob(request.spec(), request.request_id(), NowSeconds()));
  MutexLock lock(mutex_);
  const absl::StatusOr<JobLife> life = LifeOf(job);
  const bool known = std::find(waiting_.begin(), waiting_.end(), job.id()) != waiting_.end() || active_.count(job.id()) > 0;
  if (!known && life.ok() && WaitsForDevices(life->state)) {
    journal_.Add(job);
    waiting_.push_back(job.id());
    changed_.NotifyAll();
  }
  return journal_.Get(job.id());
}

absl::StatusOr<v1::Job> Orchestrator::Cancel(const std::string& job_id) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const v1::Job job, journal_.Get(job_id));
  const auto active = active_.find(job_id);
  if (active != active_.end() && !active->second.ended) {
    active->second.runner->Abort(JobEvent::kCancelled, "cancelled by the user");
    return job;
  }
  std::erase(waiting_, job_id);
  return journal_.Apply(job_id, JobEvent::kCancelled, "cancelled by the user");
}

absl::StatusOr<v1::PlanReport> Orchestrator::Plan(const v1::JobSpec& spec) {
  RETURN_IF_ERROR(ResolveSpec(spec, "").status());
  std::string name;
  std::vector<ClusterDeviceLocation> locations;
  {
    MutexLock lock(mutex_);
    std::vector<std::string> devices = UsableDevices();
    const std::vector<std::string> wanted = WantedDevices(spec);
    if (!wanted.empty()) {
      std::erase_if(devices, [&](const std::string& d) { return std::find(wanted.begin(), wanted.end(), d) == wanted.end(); });
    } else {
      const std::vector<std::string> forbidden = ForbiddenDevices(spec);
      const size_t erased = std::erase_if(devices, [&](const std::string& d) {
        return std::find(forbidden.begin(), forbidden.end(), d) != forbidden.end();
      });
      if (devices.empty() && erased > 0) {
        return absl::FailedPreconditionError(
            "all devices that are free are emulated, and the job does not have allow_emulated: true");
      }
    }
    if (devices.empty()) {
      return absl::FailedPreconditionError(
          "no device that the job may use is free; `medley nodes` shows who has them, and `medley plan --cluster` plans "
          "without them");
    }
    ASSIGN_OR_RETURN(locations, Locate(devices));
    name = absl::StrCat("(dry run ", ++dry_runs_, ")");
    RETURN_IF_ERROR(cluster_.Occupy(devices, name));
  }
  JobRunner runner({.store = store_, .journal = journal_, .agents = agents_}, name, locations);
  absl::StatusOr<PlannedJob> planned;
  Serve(name, runner, [&] { planned = runner.PlanOnly(spec); });
  if (!planned.ok()) return planned.status();
  return planned->report;
}

void Orchestrator::StopCalls() {
  MutexLock lock(mutex_);
  calls_stopped_ = true;
  for (JobRunner* runner : serving_) runner->Abort(JobEvent::kLost, kStopping);
}

void Orchestrator::Serve(const std::string& name, JobRunner& runner, const std::function<void()>& work) {
  {
    MutexLock lock(mutex_);
    if (calls_stopped_) runner.Abort(JobEvent::kLost, kStopping);
    serving_.insert(&runner);
  }
  work();
  MutexLock lock(mutex_);
  serving_.erase(&runner);
  cluster_.Release(name);
  changed_.NotifyAll();
}

absl::StatusOr<absl::Duration> Orchestrator::Register(const v1::RegisterRequest& request) {
  ASSIGN_OR_RETURN(const NodeDescription node, DecodeNode(request.node(), request.incarnation()));
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const std::vector<LostNode> lost, cluster_.Register(node, Now()));
  HandleLost(lost);
  suspect_nodes_.erase(node.name);
  spdlog::info("node {} at {} with {} device(s)", node.name, node.agent_address, node.devices.size());
  changed_.NotifyAll();
  return cluster_.lease();
}

absl::StatusOr<absl::Duration> Orchestrator::Renew(const v1::RenewRequest& request) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(cluster_.Renew(request.node(), request.incarnation(), Now()));
  suspect_nodes_.erase(request.node());
  return cluster_.lease();
}

std::vector<v1::Node> Orchestrator::Nodes() {
  MutexLock lock(mutex_);
  std::vector<v1::Node> nodes;
  for (const NodeSnapshot& node : cluster_.Nodes(Now())) nodes.push_back(EncodeNode(node));
  return nodes;
}

absl::StatusOr<std::vector<v1::DeviceProfile>> Orchestrator::Profiles() {
  std::set<std::string> kinds;
  for (const v1::Node& node : Nodes()) {
    for (const v1::Device& device : node.devices()) kinds.insert(device.kind());
  }
  ASSIGN_OR_RETURN(std::vector<v1::DeviceProfile> profiles, store_.ListProfiles());
  std::erase_if(profiles, [&](const v1::DeviceProfile& profile) { return kinds.count(profile.device_kind()) == 0; });
  return profiles;
}

absl::StatusOr<v1::ListKernelsResponse> Orchestrator::Kernels(const std::string& node) {
  return ListKernels(Nodes(), node, agents_, Now() + kKernelsTime);
}

absl::StatusOr<v1::ClusterSpec> Orchestrator::ExportCluster() {
  v1::ClusterSpec cluster;
  for (v1::Node& node : Nodes()) {
    if (node.alive()) *cluster.add_nodes() = std::move(node);
  }
  ASSIGN_OR_RETURN(const std::vector<v1::DeviceProfile> profiles, store_.ListProfiles());
  cluster.mutable_profiles()->Add(profiles.begin(), profiles.end());
  ASSIGN_OR_RETURN(const v1::ListLinksResponse links, Links({}));
  *cluster.mutable_links() = links.links();
  return cluster;
}

}  // namespace medley
