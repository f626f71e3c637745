// Nodes that come, renew their leases, leave and are lost, and what that means for the jobs that have devices of theirs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/orchestrator.h"
#include "coordinator/wire/node_codec.h"
#include "runtime/base/counted.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/log/log.h"

namespace medley {

absl::StatusOr<v1::RegisterResponse> Orchestrator::Register(const v1::RegisterRequest& request) {
  ASSIGN_OR_RETURN(const NodeDescription node, DecodeNode(request.node(), request.incarnation()));
  MutexLock lock(mutex_);
  const absl::Time now = Time();
  const bool was_there = cluster_.IsAlive(node.name, node.incarnation);
  ASSIGN_OR_RETURN(const std::vector<LostNode> lost, cluster_.Register(node, now));
  HandleLost(lost, JobEvent::kLost);
  renewals_.Held(node.name, node.incarnation);
  heard_of_.push_back(node.agent_address);
  standing_.SuspectNoMore(node.name);
  if (!request.leaving()) standing_.LeaveNoMore(node.name);
  arrivals_.AwaitNoMore(node.name);
  not_back_.erase(node.name);
  if (!was_there) arrivals_.NewNodeCame(now);
  changed_nodes_.insert(node.name);
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
    GiveBack(id, active, node.name, request);
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

// A job that was taken up gets its devices back as their nodes come; but a node that comes without its task has lost it.
void Orchestrator::GiveBack(const std::string& job_id, const Active& active, const std::string& node,
                            const v1::RegisterRequest& request) {
  std::vector<std::string> devices;
  for (const std::string& device : active.devices) {
    if (NodeOf(device) == node) devices.push_back(device);
  }
  (void)cluster_.Occupy(devices, job_id);
  if (devices.empty() || active.taken_up.empty()) return;
  const bool has_one =
      std::any_of(request.tasks().begin(), request.tasks().end(),
                  [&](const v1::AgentTask& task) { return active.taken_up.count(task.task_id()) > 0; });
  if (!has_one)
    active.runner->Abort(JobEvent::kLost, absl::StrCat("node ", node, ": its agent was started anew"));
}

absl::StatusOr<absl::Duration> Orchestrator::Renew(const v1::RenewRequest& request) {
  const std::optional<absl::Duration> lease = renewals_.Note(request.node(), request.incarnation(), Time());
  if (lease.has_value()) return *lease;
  return NoLease(request.node());
}

void Orchestrator::ExpireLeases() {
  const absl::Time now = Time();
  // Whoever could not be heard because this process stood still is not to blame.
  absl::Duration stall = now - ticked_ - kTick;
  if (stall > options_.lease / 3) {
    LogWarning(absl::StrCat("the coordinator stood still for ", absl::FormatDuration(stall),
                            "; leases are longer by that"));
    cluster_.Extend(stall);
  } else {
    stall = absl::ZeroDuration();
  }
  ticked_ = now;
  for (const Renewals::Renewal& renewal : renewals_.Take()) {
    // So is the lease that is renewed: the renewal may have come before that.
    const absl::Time from = std::min(now, renewal.at + stall);
    if (!cluster_.Renew(renewal.node, renewal.incarnation, from, renewal.lease).ok()) continue;
    heard_of_.push_back(cluster_.AgentAddressOf(renewal.node));
    standing_.Renewed(renewal.node, renewal.at);
  }
  const std::vector<LostNode> lost = cluster_.Expire(now);
  lost_leases_ += lost.size();
  HandleLost(lost, JobEvent::kLost);
  LoseWhoIsNotBack(now);
  for (std::string& node : cluster_.ForgetLongDead(now)) changed_nodes_.insert(std::move(node));
}

void Orchestrator::TakeUpNodes(const std::vector<Store::KnownNode>& nodes) {
  for (const Store::KnownNode& known : nodes) {
    absl::StatusOr<NodeDescription> node = DecodeNode(known.node, /*incarnation=*/0);
    if (!node.ok()) node = NodeDescription{.name = known.node.name()};
    if (known.lost_at_seconds == 0) {
      not_back_[node->name] = *std::move(node);
      continue;
    }
    // The system's clock may have been set since.
    const double ago_seconds = std::max(UnixSecondsNow() - known.lost_at_seconds, 0.0);
    cluster_.AddLost(*node, Time() - absl::Seconds(ago_seconds));
  }
  std::set<std::string> awaited;
  for (const auto& [name, node] : not_back_) awaited.insert(name);
  const absl::Duration lease = LeaseOf(options_.lease, awaited.size());
  arrivals_.Await(std::move(awaited), lease);
}

void Orchestrator::LoseWhoIsNotBack(absl::Time now) {
  if (not_back_.empty() || !arrivals_.AllHadTime(now)) return;
  for (const auto& [name, node] : not_back_) {
    cluster_.AddLost(node, arrivals_.began());
    changed_nodes_.insert(name);
    LogWarning(
        absl::StrCat("node ", name, " is lost: its agent has not registered since the coordinator began"),
        {.node = name});
  }
  not_back_.clear();
}

void Orchestrator::HandleLost(const std::vector<LostNode>& nodes, JobEvent event) {
  for (const LostNode& node : nodes) {
    renewals_.Ended(node.name);
    agents_.Disconnect(node.agent_address);
    standing_.SuspectNoMore(node.name);  // it is heard of again before it is used again
    changed_nodes_.insert(node.name);
    LogWarning(absl::StrCat("node ", node.name, " is lost: ", node.reason), {.node = node.name});
    for (const std::string& job : node.jobs) {
      const auto active = active_.find(job);
      if (active == active_.end()) continue;
      active->second.runner->Abort(event, absl::StrCat("node ", node.name, " is lost: ", node.reason));
    }
  }
}

void Orchestrator::Deregister(const v1::DeregisterRequest& request) {
  MutexLock lock(mutex_);
  HandleLost(cluster_.Leave(request.node(), request.incarnation()), JobEvent::kInterrupted);
  changed_.NotifyAll();
}

absl::StatusOr<v1::LeaveResponse> Orchestrator::Leave(const v1::LeaveRequest& request) {
  MutexLock lock(mutex_);
  if (!cluster_.IsAlive(request.node(), request.incarnation())) return NoLease(request.node());
  v1::LeaveResponse response;
  response.set_leaving_jobs(static_cast<uint32_t>(NoteLeaving(request.node()).leaving_size()));
  return response;
}

v1::DrainNodeResponse Orchestrator::NoteLeaving(const std::string& node) {
  if (standing_.SetLeaving(node)) LogInfo(absl::StrCat("node ", node, " is about to leave"), {.node = node});
  return MoveJobsFrom(node, absl::StrCat("the agent of node ", node, " is stopped"), /*now=*/false);
}

void Orchestrator::KeepNodes() {
  std::map<std::string, std::optional<Store::KnownNode>> changed;
  {
    MutexLock lock(mutex_);
    for (const std::string& name : changed_nodes_) {
      const std::optional<NodeSnapshot> node = cluster_.NodeNamed(name, Time());
      std::optional<Store::KnownNode>& known = changed[name];
      // Whoever said that it ends is not missed.
      if (!node.has_value() || node->left) continue;
      known.emplace().node = EncodeNode(*node);
      if (!node->alive)
        known->lost_at_seconds = UnixSecondsNow() - absl::ToDoubleSeconds(node->since_renewal);
    }
    changed_nodes_.clear();
  }
  if (changed.empty()) return;
  if (const absl::Status kept = store_.ChangeNodes(changed); !kept.ok()) {
    LogError(absl::StrCat("which nodes there are is not kept: ", kept.message()));
  }
}

std::vector<v1::Node> Orchestrator::Nodes() {
  MutexLock lock(mutex_);
  std::vector<v1::Node> nodes;
  for (const NodeSnapshot& node : cluster_.Nodes(Time())) {
    nodes.push_back(EncodeNode(node));
    nodes.back().set_drained(standing_.IsDrained(node.description.name));
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

bool Orchestrator::IsUsable(const std::string& device) { return standing_.IsUsable(NodeOf(device)); }

std::vector<std::string> Orchestrator::UsableDevices() {
  std::vector<std::string> devices = cluster_.FreeDevices();
  std::erase_if(devices, [&](const std::string& device) { return !IsUsable(device); });
  return devices;
}

absl::StatusOr<std::vector<ClusterDeviceLocation>> Orchestrator::Locate(
    const std::vector<std::string>& devices) {
  std::vector<ClusterDeviceLocation> locations;
  for (const std::string& device : devices) {
    ASSIGN_OR_RETURN(locations.emplace_back(), cluster_.Find(device));
  }
  return locations;
}

}  // namespace medley
