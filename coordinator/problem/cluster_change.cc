#include "coordinator/problem/cluster_change.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/problem/cluster_links.h"
#include "runtime/base/some_names.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int kMostCores = 65536;  // the numbers of a device's cores are less

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

std::vector<AllowedDevice> AllDevices(const Cluster& cluster) {
  std::vector<AllowedDevice> devices;
  for (const ClusterNode& node : cluster.nodes) {
    for (const ClusterDevice& device : node.devices)
      devices.push_back({FullName(node.name, device), &node, &device});
  }
  return devices;
}

std::set<std::string> KindsOf(const Cluster& cluster) {
  std::set<std::string> kinds;
  for (const AllowedDevice& device : AllDevices(cluster)) kinds.insert(device.device->kind);
  return kinds;
}

std::optional<AllowedDevice> FirstOfKind(const std::string& kind, const Cluster& cluster) {
  for (const AllowedDevice& device : AllDevices(cluster))
    if (device.device->kind == kind) return device;
  return std::nullopt;
}

// "new" of "new-12".
bool IsOfGroup(const std::string& node, const std::string& group) {
  if (!absl::StartsWith(node, group + "-") || node.size() == group.size() + 1) return false;
  return std::all_of(node.begin() + static_cast<std::ptrdiff_t>(group.size()) + 1, node.end(),
                     absl::ascii_isdigit);
}

// A device, the devices of a node, or of a group's nodes.
bool IsAt(const AllowedDevice& device, const std::string& name) {
  return device.name == name || device.node->name == name || IsOfGroup(device.node->name, name);
}

enum class End : uint8_t { kUnknown, kPlaces, kKind, kSite };

// The name of a place goes before that of a kind, and that before a site's.
End EndOf(const std::string& name, const Cluster& cluster) {
  const std::vector<AllowedDevice> devices = AllDevices(cluster);
  if (name.empty()) return End::kUnknown;
  if (std::any_of(devices.begin(), devices.end(), [&](const AllowedDevice& d) { return IsAt(d, name); }))
    return End::kPlaces;
  if (KindsOf(cluster).contains(name)) return End::kKind;
  return SitesOf(cluster).contains(name) ? End::kSite : End::kUnknown;
}

std::string BaseName(const std::string& device) {
  size_t end = device.size();
  while (end > 1 && absl::ascii_isdigit(device[end - 1])) --end;
  return device.substr(0, end);
}

// The links that are given pair by pair, by what they join.
struct KnownLinks {
  std::map<std::pair<std::string, std::string>, const ClusterLink*> from_kind_to_device, between_kinds;
  std::map<std::string, const ClusterLink*> within_hosts;  // of two of a kind
};

KnownLinks KnownLinksOf(const Cluster& cluster) {
  std::map<std::string, AllowedDevice> by_name;
  for (const AllowedDevice& device : AllDevices(cluster)) by_name.emplace(device.name, device);
  KnownLinks known;
  for (const ClusterLink& link : cluster.links) {
    const auto a = by_name.find(link.a), b = by_name.find(link.b);
    if (a == by_name.end() || b == by_name.end()) continue;
    const std::string &a_kind = a->second.device->kind, &b_kind = b->second.device->kind;
    if (HostOf(*a->second.node) == HostOf(*b->second.node)) {
      if (a_kind == b_kind) known.within_hosts.emplace(a_kind, &link);
      continue;
    }
    known.from_kind_to_device.emplace(std::pair(a_kind, link.b), &link);
    known.from_kind_to_device.emplace(std::pair(b_kind, link.a), &link);
    known.between_kinds.emplace(std::pair(a_kind, b_kind), &link);
    known.between_kinds.emplace(std::pair(b_kind, a_kind), &link);
  }
  return known;
}

// Of a node's devices, as others of its kind have them, or had them before.
std::vector<ClusterLink> LinksLikeOthers(const ClusterNode& added, const Cluster& cluster,
                                         const Cluster* before) {
  if (cluster.links.empty() && (before == nullptr || before->links.empty())) return {};
  KnownLinks known = KnownLinksOf(cluster);
  if (before != nullptr) {
    KnownLinks known_before = KnownLinksOf(*before);
    known.from_kind_to_device.merge(known_before.from_kind_to_device);
    known.between_kinds.merge(known_before.between_kinds);
    known.within_hosts.merge(known_before.within_hosts);
  }
  const std::vector<AllowedDevice> others = AllDevices(cluster);
  const std::string& kind = added.devices.front().kind;
  std::vector<ClusterLink> links;
  const auto add = [&](const std::string& a, const std::string& b, const ClusterLink& like) {
    links.push_back({a, b, like.cost, like.bytes_per_second, like.measured_at_seconds});
  };
  std::vector<std::string> names;
  for (const ClusterDevice& device : added.devices) names.push_back(FullName(added.name, device));
  for (size_t a = 0; a < names.size(); ++a) {
    const auto within = known.within_hosts.find(kind);
    for (size_t b = 0; b < a && within != known.within_hosts.end(); ++b)
      add(names[a], names[b], *within->second);
    for (const AllowedDevice& other : others) {
      const auto same = known.from_kind_to_device.find({kind, other.name});
      const auto alike = known.between_kinds.find({kind, other.device->kind});
      if (same != known.from_kind_to_device.end()) {
        add(names[a], other.name, *same->second);
      } else if (alike != known.between_kinds.end()) {
        add(names[a], other.name, *alike->second);
      }
    }
  }
  return links;
}

// Where its node comes to be.
absl::Status Place(const AddedDevices& added, const ClusterNode* like, const Cluster& cluster,
                   const Cluster& before, ClusterNode& node) {
  const ClusterNode none;
  if (like == nullptr)
    like = !cluster.nodes.empty()  ? &cluster.nodes.front()
           : !before.nodes.empty() ? &before.nodes.front()
                                   : &none;
  node.site = added.site.value_or(like->site);
  std::set<std::string> sites = SitesOf(cluster);
  sites.merge(SitesOf(before));
  if (added.site && !sites.contains(*added.site)) {
    sites.erase("");
    return sites.empty() ? Invalid("site: \"", *added.site, "\"; no node of the cluster says at which it is")
                         : Invalid("site: \"", *added.site, "\"; there are ", SomeNames(sites));
  }
  node.rack = added.rack.value_or(node.site == like->site ? like->rack : "");
  return absl::OkStatus();
}

// Lets links of a kind's devices that nothing else tells be as the slowest between machines, of one site as the slowest within any; of all
// classes they come last.
void SupposeLinks(const std::string& kind, Cluster& cluster) {
  const std::vector<AllowedDevice> devices = AllDevices(cluster);
  if (LinksOf(devices, cluster).ok()) return;
  std::map<std::string, const ClusterNode*> nodes;
  for (const AllowedDevice& device : devices) nodes.emplace(device.name, device.node);
  std::vector<LinkCost> known, within_sites;
  const auto add = [&](bool within_site, const LinkCost& cost) {
    known.push_back(cost);
    if (within_site) within_sites.push_back(cost);
  };
  for (const ClusterLink& link : cluster.links) {
    const auto a = nodes.find(link.a), b = nodes.find(link.b);
    if (a != nodes.end() && b != nodes.end() && HostOf(*a->second) != HostOf(*b->second))
      add(a->second->site == b->second->site, link.cost);
  }
  for (const ClusterLinkClass& link : cluster.link_classes)
    if (link.level != LinkLevel::kNode) add(link.level != LinkLevel::kSites, link.cost);
  if (within_sites.empty()) within_sites = known;
  for (const LinkLevel level : {LinkLevel::kNode, LinkLevel::kSite, LinkLevel::kSites}) {
    const LinkCost supposed = SupposedLink(level == LinkLevel::kSites ? known : within_sites);
    cluster.link_classes.insert(cluster.link_classes.begin(),
                                {.level = level, .a_kind = kind, .cost = supposed});
  }
}

// Of another rate than `today`. What a library was measured to take changes as much as what it takes of a message.
LinkCost ChangedLink(const LinkCost& today, double latency_seconds, double bytes_per_second) {
  LinkCost changed{LinkModel::Line(latency_seconds, bytes_per_second),
                   LinkModel::Line(latency_seconds, bytes_per_second)};
  const double times_as_long = today.transfer.BytesPerSecond() / bytes_per_second;
  if (!std::isfinite(times_as_long)) return changed;
  changed.all_reduce = today.all_reduce;
  for (AllReduceTimes& times : changed.all_reduce) {
    for (LinkPoint& point : times.seconds.points) point.seconds *= times_as_long;
  }
  return changed;
}

double NewestSeconds(const Cluster& cluster) {
  double newest = 0;
  for (const ClusterLink& link : cluster.links) newest = std::max(newest, link.measured_at_seconds);
  return newest;
}

// One end of links that are changed.
struct NamedEnd {
  const std::string& name;
  End end;

  bool Has(const AllowedDevice& device) const {
    return end == End::kPlaces ? IsAt(device, name)
           : end == End::kKind ? device.device->kind == name
                               : device.node->site == name;
  }
};

bool Joins(const NamedEnd& a, const NamedEnd& b, const AllowedDevice& first, const AllowedDevice& second) {
  return (a.Has(first) && b.Has(second)) || (a.Has(second) && b.Has(first));
}

// The devices that are joined, each two once: on different machines, unless both ends are places.
std::vector<std::pair<int, int>> PairsOf(const NamedEnd& a, const NamedEnd& b,
                                         const std::vector<AllowedDevice>& devices, size_t most) {
  const bool of_machines = a.end != End::kPlaces || b.end != End::kPlaces;
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < static_cast<int>(devices.size()); ++i) {
    if (!a.Has(devices[i]) && !b.Has(devices[i])) continue;
    for (int j = 0; j < i && pairs.size() < most; ++j) {
      if (!Joins(a, b, devices[i], devices[j])) continue;
      if (of_machines && HostOf(*devices[i].node) == HostOf(*devices[j].node)) continue;
      pairs.push_back({i, j});
    }
  }
  return pairs;
}

// Such a class of links between machines of a site, whether racks are told apart there or not.
std::vector<ClusterLinkClass> WithinSites(ClusterLinkClass link, const Cluster& cluster) {
  link.level = LinkLevel::kSite;
  std::vector<ClusterLinkClass> classes = {link};
  const auto is_of_racks = [](const ClusterLinkClass& of) { return of.level == LinkLevel::kRacks; };
  if (std::any_of(cluster.link_classes.begin(), cluster.link_classes.end(), is_of_racks)) {
    link.level = LinkLevel::kRacks;
    classes.push_back(std::move(link));
  }
  return classes;
}

// In the place of all links between machines that the ends name pair by pair.
void AddClass(const NamedEnd& a, const NamedEnd& b, const std::vector<ClusterLinkClass>& classes,
              Cluster& cluster) {
  std::map<std::string, AllowedDevice> by_name;
  for (const AllowedDevice& device : AllDevices(cluster)) by_name.emplace(device.name, device);
  std::erase_if(cluster.links, [&](const ClusterLink& link) {
    const auto first = by_name.find(link.a), second = by_name.find(link.b);
    return first != by_name.end() && second != by_name.end() &&
           HostOf(*first->second.node) != HostOf(*second->second.node) &&
           Joins(a, b, first->second, second->second);
  });
  cluster.link_classes.insert(cluster.link_classes.end(), classes.begin(), classes.end());
}

}  // namespace

std::string DescribeNames(const Cluster& cluster) {
  std::set<std::string> nodes, sites = SitesOf(cluster);
  for (const ClusterNode& node : cluster.nodes) nodes.insert(node.name);
  sites.erase("");
  return absl::StrCat("there are the kinds ", SomeNames(KindsOf(cluster)), "; the nodes ", SomeNames(nodes),
                      sites.empty() ? "" : absl::StrCat("; the sites ", SomeNames(sites)));
}

bool IsEndOfLinks(const std::string& name, const Cluster& cluster) {
  return EndOf(name, cluster) != End::kUnknown;
}

absl::Status AddDevices(const AddedDevices& added, Cluster& cluster, const Cluster* before) {
  if (added.count < 1) return Invalid("count: ", added.count, "; must be at least 1");
  ClusterNode node{.name = added.node};
  std::set<std::string> names;
  for (const ClusterNode& other : cluster.nodes) names.insert(other.name);
  for (int i = 0; node.name.empty(); ++i) {
    const std::string name = absl::StrCat("added-", i);
    if (!names.contains(name)) node.name = name;
  }
  if (names.contains(node.name)) return Invalid("node: \"", node.name, "\" is there already");
  std::optional<AllowedDevice> known = FirstOfKind(added.kind, cluster);
  if (!known && before != nullptr) known = FirstOfKind(added.kind, *before);
  if (!known && !added.like) {
    std::set<std::string> kinds = KindsOf(cluster);
    if (before != nullptr) kinds.merge(KindsOf(*before));
    return Invalid("kind: no device is a \"", added.kind, "\"; there are ", SomeNames(kinds));
  }
  ClusterDevice like = known ? *known->device : *added.like;
  if (added.price_per_hour) like.price_per_hour = *added.price_per_hour;
  RETURN_IF_ERROR(
      Place(added, known ? known->node : nullptr, cluster, before == nullptr ? cluster : *before, node));
  if (known) {
    node.host_memory = known->node->host_memory;
    node.network_cards = known->node->network_cards;
  }
  const std::string base = BaseName(like.description.name);
  for (int d = 0; d < added.count; ++d) {
    node.devices.push_back(like);
    node.devices.back().description.name = absl::StrCat(base, d);
    // Each has its own.
    for (int& core : node.devices.back().description.cores) core += d * kMostCores;
  }
  for (ClusterLink& link : LinksLikeOthers(node, cluster, before)) cluster.links.push_back(std::move(link));
  if (!known && added.link_of_node && added.count > 1) {
    cluster.link_classes.push_back(
        {.level = LinkLevel::kNode, .a_kind = added.kind, .b_kind = added.kind, .cost = *added.link_of_node});
  }
  cluster.nodes.push_back(std::move(node));
  SupposeLinks(added.kind, cluster);
  return absl::OkStatus();
}

absl::Status RemoveDevices(const std::string& name, Cluster& cluster) {
  std::set<std::string> removed;
  for (const AllowedDevice& device : AllDevices(cluster))
    if (IsAt(device, name)) removed.insert(device.name);
  if (removed.empty()) return Invalid("no node or device is \"", name, "\"; ", DescribeNames(cluster));
  for (ClusterNode& node : cluster.nodes) {
    std::erase_if(node.devices,
                  [&](const ClusterDevice& device) { return removed.contains(FullName(node.name, device)); });
  }
  std::erase_if(cluster.nodes, [](const ClusterNode& node) { return node.devices.empty(); });
  std::erase_if(cluster.links, [&](const ClusterLink& link) {
    return removed.contains(link.a) || removed.contains(link.b);
  });
  return absl::OkStatus();
}

absl::Status SetLink(const std::string& a_name, const std::string& b_name, double bytes_per_second,
                     std::optional<double> latency_seconds, Cluster& cluster) {
  const NamedEnd a{a_name, EndOf(a_name, cluster)}, b{b_name, EndOf(b_name, cluster)};
  for (const NamedEnd& end : {a, b}) {
    if (end.end == End::kUnknown)
      return Invalid("no device, node, kind or site is \"", end.name, "\"; ", DescribeNames(cluster));
  }
  const bool of_sites = a.end == End::kSite && b.end == End::kSite;
  const bool of_kinds = a.end == End::kKind && b.end == End::kKind;
  const bool of_one_site = of_sites && a_name == b_name;
  if (of_one_site && SitesOf(cluster).size() > 1) {
    return Invalid(
        "site \"", a_name,
        "\": there are others, too, and classes of links within a site tell none apart; name kinds or nodes");
  }
  const std::vector<AllowedDevice> devices = AllDevices(cluster);
  const std::vector<std::pair<int, int>> pairs =
      PairsOf(a, b, devices, of_sites || of_kinds ? 1 : std::numeric_limits<size_t>::max());
  if (pairs.empty())
    return Invalid("\"", a_name, "\" and \"", b_name, "\" have no two devices that a link joins");
  // Where a latency is given there may be none.
  const absl::StatusOr<DeviceLinks> links_today = LinksOf(devices, cluster);
  if (!latency_seconds) RETURN_IF_ERROR(links_today.status());
  const auto cost_of = [&](const std::pair<int, int>& pair) {
    const LinkCost today = links_today.ok() ? links_today->Between(pair.first, pair.second) : LinkCost{};
    return ChangedLink(today, latency_seconds.value_or(today.transfer.LatencySeconds()), bytes_per_second);
  };
  const LinkCost of_all = cost_of(pairs.front());
  if (of_one_site) {
    AddClass(a, b, WithinSites({.cost = of_all}, cluster), cluster);
    return absl::OkStatus();
  }
  if (of_sites) {
    AddClass(a, b, {{.level = LinkLevel::kSites, .cost = of_all, .a_site = a_name, .b_site = b_name}},
             cluster);
    return absl::OkStatus();
  }
  if (of_kinds) {
    std::vector<ClusterLinkClass> classes =
        WithinSites({.a_kind = a_name, .b_kind = b_name, .cost = of_all}, cluster);
    classes.push_back({LinkLevel::kSites, a_name, b_name, of_all});
    AddClass(a, b, classes, cluster);
    return absl::OkStatus();
  }
  const double newer = NewestSeconds(cluster) + 1;
  std::vector<ClusterLink> links;
  for (const std::pair<int, int>& pair : pairs)
    links.push_back(
        {devices[pair.first].name, devices[pair.second].name, cost_of(pair), bytes_per_second, newer});
  cluster.links.insert(cluster.links.end(), links.begin(), links.end());
  return absl::OkStatus();
}

}  // namespace medley
