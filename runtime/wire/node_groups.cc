#include "runtime/wire/node_groups.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/name_list.h"
#include "runtime/wire/validate.h"

namespace medley {
namespace {

bool ListsNames(const v1::NodeGroup& group) { return group.name().find_first_of(",[]") != std::string::npos; }

// Errors say the field of the group.
absl::StatusOr<std::vector<std::string>> NamesOf(const v1::NodeGroup& group) {
  std::vector<std::string> names;
  if (ListsNames(group)) {
    absl::StatusOr<std::vector<std::string>> listed = ParseNameList(group.name());
    if (!listed.ok()) return absl::InvalidArgumentError(absl::StrCat("name: ", listed.status().message()));
    names = *std::move(listed);
    if (names.size() != group.count()) {
      return absl::InvalidArgumentError(
          absl::StrCat("count: ", group.count(), ", but name lists ", names.size(), "; must be as many"));
    }
  } else {
    for (uint32_t n = 0; n < group.count(); ++n) names.push_back(absl::StrCat(group.name(), "-", n));
  }
  for (const std::string& name : names) {
    v1::Node named;
    named.set_name(name);
    if (const std::optional<Violation> violation = FindViolation(named))
      return absl::InvalidArgumentError(absl::StrCat("name: ", violation->problem));
  }
  return names;
}

// A node of the group, without a name.
absl::StatusOr<v1::Node> UnnamedNodeOf(const v1::NodeGroup& group) {
  const bool has_devices = !group.devices().empty();
  if (has_devices == group.has_device()) {
    return absl::InvalidArgumentError(
        absl::StrCat("device: ", has_devices ? "stands beside devices" : "is missing, and so are devices",
                     "; must be one of both"));
  }
  if (has_devices && group.has_devices_per_node())
    return absl::InvalidArgumentError("devices_per_node: stands beside devices; goes with device alone");
  v1::Node node;
  node.set_site(group.site());
  node.set_rack(group.rack());
  node.set_host_memory_bytes(group.host_memory_bytes());
  node.set_network_cards(group.network_cards());
  *node.mutable_devices() = group.devices();
  if (has_devices) return node;
  const uint32_t count = group.has_devices_per_node() ? group.devices_per_node() : 1;
  for (uint32_t d = 0; d < count; ++d) {
    v1::Device& device = *node.add_devices() = group.device();
    if (count > 1) device.set_name(absl::StrCat(device.name(), d));
  }
  return node;
}

std::string HostOf(const v1::Node& node) { return node.host().empty() ? node.name() : node.host(); }

// What the node would be the only one of, without names.
v1::NodeGroup GroupOf(const v1::Node& node) {
  v1::NodeGroup group;
  group.set_site(node.site());
  group.set_rack(node.rack());
  group.set_host_memory_bytes(node.host_memory_bytes());
  group.set_network_cards(node.network_cards());
  *group.mutable_devices() = node.devices();
  return group;
}

}  // namespace

absl::StatusOr<std::vector<v1::Node>> ExpandNodes(const v1::ClusterSpec& cluster) {
  std::vector<v1::Node> nodes(cluster.nodes().begin(), cluster.nodes().end());
  std::set<std::string> listed;
  for (int i = 0; i < cluster.node_groups_size(); ++i) {
    const v1::NodeGroup& group = cluster.node_groups(i);
    const std::string field = absl::StrCat("node_groups[", i, "].");
    const auto in_group = [&](const absl::Status& status) {
      return absl::Status(status.code(), absl::StrCat(field, status.message()));
    };
    absl::StatusOr<v1::Node> node = UnnamedNodeOf(group);
    if (!node.ok()) return in_group(node.status());
    const absl::StatusOr<std::vector<std::string>> names = NamesOf(group);
    if (!names.ok()) return in_group(names.status());
    if (ListsNames(group)) listed.insert(names->begin(), names->end());
    for (const std::string& name : *names) {
      node->set_name(name);
      nodes.push_back(*node);
    }
  }
  if (listed.empty()) return nodes;
  const auto by_name = [](const v1::Node& a, const v1::Node& b) { return a.name() < b.name(); };
  std::stable_sort(nodes.begin(), nodes.end(), by_name);
  const auto twice =
      std::adjacent_find(nodes.begin(), nodes.end(), [&](const v1::Node& a, const v1::Node& b) {
        return a.name() == b.name() && listed.contains(a.name());
      });
  if (twice != nodes.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("node_groups: \"", twice->name(), "\" is listed, and another node has that name, too"));
  }
  return nodes;
}

void GroupAlikeNodes(v1::ClusterSpec& cluster) {
  const auto not_in_order = [](const v1::Node& a, const v1::Node& b) { return a.name() >= b.name(); };
  const auto& nodes = cluster.nodes();
  const bool ascend = std::adjacent_find(nodes.begin(), nodes.end(), not_in_order) == nodes.end();
  if (!cluster.node_groups().empty() || !ascend) return;
  std::map<std::string, int> nodes_at;  // host
  for (const v1::Node& node : cluster.nodes()) ++nodes_at[HostOf(node)];
  // In a group a node's host has the node's name, which must not be that of another's.
  const auto is_alone = [&](const v1::Node& node) {
    const std::string host = HostOf(node);
    return nodes_at.at(host) == 1 && (host == node.name() || !nodes_at.contains(node.name()));
  };
  std::map<std::string, std::vector<int>> alike;  // places of nodes by what they are
  for (int n = 0; n < cluster.nodes_size(); ++n) {
    if (is_alone(cluster.nodes(n))) alike[GroupOf(cluster.nodes(n)).SerializeAsString()].push_back(n);
  }
  std::map<std::string, std::string> name_of_host;
  std::set<int> grouped;
  std::map<int, v1::NodeGroup> groups;  // by the place of their first node
  for (const auto& [what, places] : alike) {
    if (places.size() < 2 || cluster.nodes(places.front()).devices().empty()) continue;
    std::vector<std::string> names;
    for (const int n : places) {
      const v1::Node& node = cluster.nodes(n);
      names.push_back(node.name());
      name_of_host[HostOf(node)] = node.name();
      grouped.insert(n);
    }
    v1::NodeGroup& group = groups[places.front()] = GroupOf(cluster.nodes(places.front()));
    group.set_name(WriteNameList(names));
    group.set_count(static_cast<uint32_t>(names.size()));
  }
  for (auto& [first, group] : groups) *cluster.add_node_groups() = std::move(group);
  for (v1::HostSlowdown& slowdown : *cluster.mutable_slowdowns()) {
    const auto name = name_of_host.find(slowdown.host());
    if (name != name_of_host.end()) slowdown.set_host(name->second);
  }
  google::protobuf::RepeatedPtrField<v1::Node> others;
  for (int n = 0; n < cluster.nodes_size(); ++n) {
    if (!grouped.contains(n)) *others.Add() = std::move(*cluster.mutable_nodes(n));
  }
  cluster.mutable_nodes()->Swap(&others);
}

}  // namespace medley
