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

// The link as that between the two.
absl::StatusOr<ClusterLink> Decoded(const v1::LinkProfile& measured, const ClusterDeviceLocation& a,
                                    const ClusterDeviceLocation& b) {
  v1::LinkProfile link = measured;
  link.set_a(FullName(a));
  link.set_b(FullName(b));
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
  table.ForEachPlaceAmong(devices, [&](int first, int second, const v1::LinkProfile& measured) {
    added = add(first, second, measured);
    return added.ok();
  });
  return added;
}

// Those that may be one class, and how many of them were measured as fast as that.
struct Group {
  ClusterLinkClass of;
  struct Alike {
    const v1::LinkProfile* measured = nullptr;
    int64_t count = 0;
    int first = 0, second = 0;  // places of the first such
  };
  std::map<std::pair<double, double>, Alike> links;  // by bandwidth and latency

  void Add(int first, int second, const v1::LinkProfile& measured) {
    Alike& alike = links[{measured.bytes_per_second(), measured.latency_seconds()}];
    if (alike.count++ == 0) alike.measured = &measured, alike.first = first, alike.second = second;
  }
  const Alike& Middle() const {
    int64_t left = 0;
    for (const auto& [speed, link] : links) left += link.count;
    left = (left - 1) / 2;
    for (const auto& [speed, link] : links) {
      if (left < link.count) return link;
      left -= link.count;
    }
    return links.begin()->second;
  }
};

}  // namespace

absl::Status AddLinks(const LinkTable& table, const std::vector<ClusterDeviceLocation>& devices,
                      Cluster& cluster) {
  const auto add_itself = [&](int first, int second, const v1::LinkProfile& measured) -> absl::Status {
    ASSIGN_OR_RETURN(ClusterLink known, Decoded(measured, devices[first], devices[second]));
    cluster.links.push_back(std::move(known));
    return absl::OkStatus();
  };
  if (devices.size() <= kMostDevicesByLink) return ForEach(table, devices, add_itself);
  std::vector<std::string> machines;
  for (const ClusterDeviceLocation& device : devices) machines.push_back(MachineOf(device));
  std::map<std::tuple<LinkLevel, absl::string_view, absl::string_view>, Group> groups;
  const auto group_of = [&](int a, int b) -> Group& {
    const LinkLevel level = machines[a] == machines[b]           ? LinkLevel::kNode
                            : devices[a].site == devices[b].site ? LinkLevel::kSite
                                                                 : LinkLevel::kSites;
    const absl::string_view a_kind = devices[a].device.kind, b_kind = devices[b].device.kind;
    const auto [first, second] = std::minmax({a_kind, b_kind});
    const auto [group, is_new] = groups.try_emplace({level, first, second});
    if (is_new) {
      group->second.of = {.level = level, .a_kind = std::string(first), .b_kind = std::string(second)};
    }
    return group->second;
  };
  RETURN_IF_ERROR(ForEach(table, devices, [&](int first, int second, const v1::LinkProfile& measured) {
    group_of(first, second).Add(first, second, measured);
    return absl::OkStatus();
  }));
  for (auto& [key, group] : groups) {
    const Group::Alike& middle = group.Middle();
    ASSIGN_OR_RETURN(const ClusterLink link,
                     Decoded(*middle.measured, devices[middle.first], devices[middle.second]));
    group.of.cost = link.cost;
    cluster.link_classes.push_back(group.of);
  }
  return ForEach(table, devices, [&](int first, int second, const v1::LinkProfile& measured) {
    const bool alike = AreAlike(measured, *group_of(first, second).Middle().measured);
    return alike ? absl::OkStatus() : add_itself(first, second, measured);
  });
}

}  // namespace medley
