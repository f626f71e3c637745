#include "coordinator/orchestrator/alike_links.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/link_pairs.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/cluster_codec.h"

namespace medley {
namespace {

absl::StatusOr<ClusterLink> Decoded(const v1::LinkProfile& link) {
  absl::StatusOr<ClusterLink> known = DecodeClusterLink(link);
  if (!known.ok())
    return Annotate(known.status(), absl::StrCat("the link between ", link.a(), " and ", link.b()));
  return known;
}

// Calls `add` with each link until one of them fails.
template <typename Add>
absl::Status ForEach(const LinkTable& table, const std::vector<ClusterDeviceLocation>& devices,
                     const Add& add) {
  absl::Status added;
  table.ForEachAmong(devices, [&](const v1::LinkProfile& link) {
    added = add(link);
    return added.ok();
  });
  return added;
}

// Those that may be one class, and how many of them were measured as fast as that.
struct Group {
  ClusterLinkClass of;
  std::map<std::pair<double, double>, std::pair<v1::LinkProfile, int>> links;  // by bandwidth and latency

  void Add(const v1::LinkProfile& link) {
    auto& [example, count] = links[{link.bytes_per_second(), link.latency_seconds()}];
    if (count++ == 0) example = link;
  }
  const v1::LinkProfile& Middle() const {
    int left = 0;
    for (const auto& [measured, link] : links) left += link.second;
    left = (left - 1) / 2;
    for (const auto& [measured, link] : links) {
      if (left < link.second) return link.first;
      left -= link.second;
    }
    return links.begin()->second.first;
  }
};

}  // namespace

absl::Status AddLinks(const LinkTable& table, const std::vector<ClusterDeviceLocation>& devices,
                      Cluster& cluster) {
  const auto add_itself = [&](const v1::LinkProfile& link) -> absl::Status {
    ASSIGN_OR_RETURN(ClusterLink known, Decoded(link));
    cluster.links.push_back(std::move(known));
    return absl::OkStatus();
  };
  if (devices.size() <= kMostDevicesByLink) return ForEach(table, devices, add_itself);
  std::map<std::string, const ClusterDeviceLocation*> by_name;
  for (const ClusterDeviceLocation& device : devices) by_name[FullName(device)] = &device;
  std::map<std::tuple<bool, std::string, std::string>, Group> groups;
  const auto group_of = [&](const v1::LinkProfile& link) -> Group& {
    const ClusterDeviceLocation &a = *by_name.at(link.a()), &b = *by_name.at(link.b());
    const bool within = MachineOf(a) == MachineOf(b);
    const auto [first, second] = std::minmax(a.device.kind, b.device.kind);
    Group& group = groups[{within, first, second}];
    group.of = {.level = within ? LinkLevel::kNode : LinkLevel::kSite, .a_kind = first, .b_kind = second};
    return group;
  };
  RETURN_IF_ERROR(ForEach(table, devices, [&](const v1::LinkProfile& link) {
    group_of(link).Add(link);
    return absl::OkStatus();
  }));
  for (auto& [key, group] : groups) {
    ASSIGN_OR_RETURN(const ClusterLink middle, Decoded(group.Middle()));
    group.of.cost = middle.cost;
    cluster.link_classes.push_back(group.of);
  }
  return ForEach(table, devices, [&](const v1::LinkProfile& link) {
    return AreAlike(link, group_of(link).Middle()) ? absl::OkStatus() : add_itself(link);
  });
}

}  // namespace medley
