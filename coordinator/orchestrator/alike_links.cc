#include "coordinator/orchestrator/alike_links.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
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

// The kind of device at one end of links that may be one class, and, where sites are told apart, its site.
using GroupEnd = std::pair<std::string_view, std::optional<std::string_view>>;

// Those that may be one class, and how many of them were measured as fast as that.
struct Group {
  ClusterLinkClass of;
  Group* wider = nullptr;                   // of two sites: that of all
  const v1::LinkProfile* stands = nullptr;  // for all that are like it
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
  int64_t CountUnlike(const v1::LinkProfile& other) const {
    int64_t count = 0;
    for (const auto& [speed, link] : links) count += AreAlike(*link.measured, other) ? 0 : link.count;
    return count;
  }
};

// In the order of level and ends, so that those of two sites come after that of all sites.
class Groups {
 public:
  // That of a link: between sites, of these two, within that of all.
  Group& Of(LinkLevel level, const ClusterDeviceLocation& a, const ClusterDeviceLocation& b) {
    const GroupEnd a_kind{a.device.kind, std::nullopt}, b_kind{b.device.kind, std::nullopt};
    if (level != LinkLevel::kSites) return At(level, a_kind, b_kind);
    Group& of_two = At(level, {a.device.kind, a.site}, {b.device.kind, b.site});
    if (of_two.wider == nullptr) of_two.wider = &At(level, a_kind, b_kind);
    return of_two;
  }
  auto begin() { return groups_.begin(); }
  auto end() { return groups_.end(); }

 private:
  Group& At(LinkLevel level, const GroupEnd& a, const GroupEnd& b) {
    const auto& [first, second] = std::minmax(a, b);
    const auto [group, is_new] = groups_.try_emplace({level, first, second});
    if (!is_new) return group->second;
    ClusterLinkClass& of = group->second.of;
    of = {.level = level, .a_kind = std::string(first.first), .b_kind = std::string(second.first)};
    if (first.second) of.a_site = std::string(*first.second);
    if (second.second) of.b_site = std::string(*second.second);
    return group->second;
  }

  std::map<std::tuple<LinkLevel, GroupEnd, GroupEnd>, Group> groups_;
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
  Groups groups;
  const auto group_of = [&](int a, int b) -> Group& {
    const LinkLevel level = LevelBetween(machines[a] == machines[b], devices[a], devices[b]);
    return groups.Of(level, devices[a], devices[b]);
  };
  RETURN_IF_ERROR(ForEach(table, devices, [&](int first, int second, const v1::LinkProfile& measured) {
    Group& group = group_of(first, second);
    group.Add(first, second, measured);
    if (group.wider != nullptr) group.wider->Add(first, second, measured);
    return absl::OkStatus();
  }));
  for (auto& [key, group] : groups) {
    const Group::Alike& middle = group.Middle();
    // Of two sites only where fewer links are then left by themselves.
    if (group.wider != nullptr &&
        group.CountUnlike(*group.wider->stands) <= group.CountUnlike(*middle.measured)) {
      group.stands = group.wider->stands;
      continue;
    }
    group.stands = middle.measured;
    ASSIGN_OR_RETURN(const ClusterLink link,
                     Decoded(*middle.measured, devices[middle.first], devices[middle.second]));
    group.of.cost = link.cost;
    cluster.link_classes.push_back(group.of);
  }
  return ForEach(table, devices, [&](int first, int second, const v1::LinkProfile& measured) {
    const bool alike = AreAlike(measured, *group_of(first, second).stands);
    return alike ? absl::OkStatus() : add_itself(first, second, measured);
  });
}

}  // namespace medley
