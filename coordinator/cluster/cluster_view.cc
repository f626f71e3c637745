#include "coordinator/cluster/cluster_view.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

std::string SilentFor(absl::Duration duration) {
  return absl::StrCat("its agent has not been heard of for ",
                      absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(100))));
}

}  // namespace

std::vector<std::string> ClusterView::JobsOn(const std::string& node) const {
  const std::string prefix = node + "/";
  std::set<std::string> jobs;
  for (const auto& [device, job] : job_of_device_) {
    if (device.compare(0, prefix.size(), prefix) == 0) jobs.insert(job);
  }
  return {jobs.begin(), jobs.end()};
}

absl::StatusOr<std::vector<LostNode>> ClusterView::Register(const NodeDescription& node, absl::Time now) {
  ASSIGN_OR_RETURN(const Registration registration,
                   leases_.Register({node.name, node.agent_address, node.incarnation}, now));
  if (registration == Registration::kRepeated) {
    nodes_.at(node.name).renewed = now;
    return std::vector<LostNode>{};
  }
  std::vector<LostNode> lost;
  if (registration == Registration::kReplaced) {
    lost.push_back({node.name, "its agent was started anew", JobsOn(node.name), AgentAddressOf(node.name)});
  }
  nodes_[node.name] = {node, true, now};
  return lost;
}

void ClusterView::AddLost(const NodeDescription& node, absl::Time since) {
  if (nodes_.try_emplace(node.name, Node{.description = node, .alive = false, .renewed = since}).second)
    some_are_dead_ = true;
}

std::string ClusterView::AgentAddressOf(const std::string& node) const {
  const auto known = nodes_.find(node);
  return known == nodes_.end() ? "" : known->second.description.agent_address;
}

bool ClusterView::IsAlive(const std::string& node, uint64_t incarnation) const {
  const auto known = nodes_.find(node);
  return known != nodes_.end() && known->second.alive && known->second.description.incarnation == incarnation;
}

absl::Status ClusterView::Renew(const std::string& node, uint64_t incarnation, absl::Time now,
                                absl::Duration promised) {
  RETURN_IF_ERROR(leases_.Renew(node, incarnation, now, promised));
  nodes_.at(node).renewed = now;
  return absl::OkStatus();
}

std::vector<LostNode> ClusterView::Expire(absl::Time now) {
  std::vector<LostNode> lost;
  for (const std::string& name : leases_.Expire(now)) {
    Node& node = nodes_.at(name);
    node.alive = false;
    some_are_dead_ = true;
    lost.push_back({name, SilentFor(now - node.renewed), JobsOn(name), node.description.agent_address});
  }
  return lost;
}

std::vector<std::string> ClusterView::ForgetLongDead(absl::Time now) {
  std::vector<std::string> forgotten;
  if (!some_are_dead_) return forgotten;
  some_are_dead_ = false;
  std::erase_if(nodes_, [&](const auto& entry) {
    const auto& [name, node] = entry;
    some_are_dead_ = some_are_dead_ || !node.alive;
    if (node.alive || now - node.renewed < options_.forget_after || !JobsOn(name).empty()) return false;
    forgotten.push_back(name);
    return true;
  });
  return forgotten;
}

std::vector<LostNode> ClusterView::Leave(const std::string& node, uint64_t incarnation) {
  if (!leases_.Leave(node, incarnation)) return {};
  nodes_.at(node).alive = false;
  nodes_.at(node).left = true;
  some_are_dead_ = true;
  return {{node, "its agent was stopped", JobsOn(node), AgentAddressOf(node)}};
}

absl::Status ClusterView::Forget(const std::string& node) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return absl::NotFoundError(absl::StrCat("there is no node \"", node, "\""));
  if (found->second.alive) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", node, " is alive; only one that is lost can be forgotten"));
  }
  const std::vector<std::string> jobs = JobsOn(node);
  if (!jobs.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", jobs.front(), " still has devices of node ", node));
  }
  nodes_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<ClusterDeviceLocation> ClusterView::Find(const std::string& device) const {
  const std::string name = NodeOf(device);
  const auto node = nodes_.find(name);
  if (node != nodes_.end()) {
    const NodeDescription& description = node->second.description;
    for (const ClusterDevice& candidate : description.devices) {
      if (FullName(name, candidate) != device) continue;
      if (!node->second.alive) {
        return absl::FailedPreconditionError(
            absl::StrCat("device ", device, ": node ", name, " is not alive"));
      }
      return ClusterDeviceLocation{name,
                                   description.agent_address,
                                   description.host,
                                   description.incarnation,
                                   candidate,
                                   description.host_memory,
                                   description.network_cards,
                                   description.site,
                                   description.rack,
                                   description.message_protection,
                                   description.protects_messages};
    }
  }
  return absl::NotFoundError(
      absl::StrCat("device ", device, " does not exist; devices are named node/device"));
}

absl::Status ClusterView::Occupy(absl::Span<const std::string> devices, const std::string& job) {
  for (const std::string& device : devices) {
    RETURN_IF_ERROR(Find(device).status());
    const auto holder = job_of_device_.find(device);
    if (holder != job_of_device_.end() && holder->second != job) {
      return absl::FailedPreconditionError(absl::StrCat("device ", device, " is used by job ", holder->second,
                                                        "; job ", job, " cannot have it"));
    }
  }
  for (const std::string& device : devices) job_of_device_[device] = job;
  return absl::OkStatus();
}

void ClusterView::Release(const std::string& job) {
  std::erase_if(job_of_device_, [&](const auto& entry) { return entry.second == job; });
}

std::vector<std::string> ClusterView::FreeDevices() const {
  std::vector<std::string> free;
  for (const auto& [name, node] : nodes_) {
    if (!node.alive) continue;
    for (const ClusterDevice& device : node.description.devices) {
      const std::string full_name = FullName(name, device);
      if (!job_of_device_.contains(full_name)) free.push_back(full_name);
    }
  }
  std::sort(free.begin(), free.end());
  return free;
}

NodeSnapshot ClusterView::SnapshotOf(const Node& node, absl::Time now) const {
  NodeSnapshot snapshot{.description = node.description, .alive = node.alive, .left = node.left};
  snapshot.since_renewal = std::max(now - node.renewed, absl::ZeroDuration());
  if (!node.alive) snapshot.status = node.left ? "its agent was stopped" : SilentFor(snapshot.since_renewal);
  for (const ClusterDevice& device : node.description.devices) {
    const auto job = job_of_device_.find(FullName(node.description.name, device));
    if (job != job_of_device_.end()) snapshot.jobs[device.description.name] = job->second;
  }
  return snapshot;
}

std::vector<NodeSnapshot> ClusterView::Nodes(absl::Time now) const {
  std::vector<NodeSnapshot> snapshots;
  for (const auto& [name, node] : nodes_) snapshots.push_back(SnapshotOf(node, now));
  return snapshots;
}

std::optional<NodeSnapshot> ClusterView::NodeNamed(const std::string& node, absl::Time now) const {
  const auto known = nodes_.find(node);
  if (known == nodes_.end()) return std::nullopt;
  return SnapshotOf(known->second, now);
}

}  // namespace medley
