#include "coordinator/problem/cluster_links.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/cluster/not_measured.h"

namespace medley {
namespace {

// Of a slow Ethernet.
constexpr double kUnknownLinkLatencySeconds = 1e-4, kUnknownLinkBytesPerSecond = 1e8;

class FindingLinks {
 public:
  FindingLinks(const std::vector<AllowedDevice>& devices, const Cluster& cluster)
      : devices_(devices), cluster_(cluster) {
    for (const ClusterLink& link : cluster.links) {
      const ClusterLink*& newest = named_[std::minmax(link.a, link.b)];
      if (newest == nullptr || link.measured_at_seconds >= newest->measured_at_seconds) newest = &link;
    }
  }

  absl::StatusOr<DeviceLinks> Find() {
    FindEnds();
    const int ends = static_cast<int>(of_end_.size());
    DeviceLinks links(end_of_device_, host_of_device_, ends);
    for (int a = 0; a < ends; ++a) {
      for (int b = 0; b <= a; ++b) {
        for (const int first : of_end_[a]) {
          for (const int second : of_end_[b]) {
            if (host_of_device_[first] == host_of_device_[second]) continue;
            ASSIGN_OR_RETURN(const LinkCost cost, Between(first, second));
            links.SetBetweenHosts(a, b, cost);
          }
        }
      }
    }
    std::set<std::pair<int, int>> known;
    for (const auto& [host, devices_of_end] : of_host_) {
      for (const auto& [a, firsts] : devices_of_end) {
        for (const auto& [b, seconds] : devices_of_end) {
          if (b > a || firsts.front() == seconds.back() || !known.insert({a, b}).second) continue;
          ASSIGN_OR_RETURN(const LinkCost cost, Between(firsts.front(), seconds.back()));
          links.SetWithinHosts(a, b, cost);
        }
      }
    }
    return links;
  }

 private:
  void FindEnds() {
    std::set<std::string> named;
    for (const auto& [names, link] : named_) named.insert({names.first, names.second});
    std::map<std::string, int> hosts;
    std::map<std::tuple<std::string, std::string, std::string>, int> ends;
    for (int d = 0; d < static_cast<int>(devices_.size()); ++d) {
      const AllowedDevice& device = devices_[d];
      const int host = hosts.emplace(HostOf(*device.node), static_cast<int>(hosts.size())).first->second;
      const auto key = named.count(device.name) > 0
                           ? std::tuple(std::string(), device.name, std::string())
                           : std::tuple(device.device->kind, device.node->site, device.node->rack);
      const int end = ends.emplace(key, static_cast<int>(of_end_.size())).first->second;
      if (end == static_cast<int>(of_end_.size())) of_end_.emplace_back();
      end_of_device_.push_back(end);
      host_of_device_.push_back(host);
      std::vector<int>&on_host = of_host_[host][end], &examples = of_end_[end];
      if (on_host.size() < 2) on_host.push_back(d);
      if (examples.empty() || (examples.size() < 2 && host_of_device_[examples.front()] != host))
        examples.push_back(d);
    }
  }

  absl::StatusOr<LinkCost> Between(int first, int second) const {
    const AllowedDevice &a = devices_[first], &b = devices_[second];
    const auto found = named_.find(std::minmax(a.name, b.name));
    if (found != named_.end()) return found->second->cost;
    const LinkLevel level = LevelBetween(host_of_device_[first] == host_of_device_[second], *a.node, *b.node);
    const ClusterLinkClass* const link =
        ClassBetween(cluster_, level, {a.device->kind, a.node->site}, {b.device->kind, b.node->site});
    if (link != nullptr) return link->cost;
    if (cluster_.default_link) return *cluster_.default_link;
    return NotMeasuredError(absl::StrCat("no link between \"", a.name, "\" and \"", b.name,
                                         "\", no link class that is theirs, and no default_link"));
  }

  const std::vector<AllowedDevice>& devices_;
  const Cluster& cluster_;
  std::map<std::pair<std::string, std::string>, const ClusterLink*> named_;  // the newest of each pair
  std::vector<int> end_of_device_, host_of_device_;
  std::vector<std::vector<int>> of_end_;                    // devices: of two hosts where there are two
  std::map<int, std::map<int, std::vector<int>>> of_host_;  // by host and end: two devices, or one
};

}  // namespace

std::string HostOf(const ClusterNode& node) { return node.host.empty() ? node.name : node.host; }

absl::StatusOr<DeviceLinks> LinksOf(const std::vector<AllowedDevice>& devices, const Cluster& cluster) {
  return FindingLinks(devices, cluster).Find();
}

LinkCost SupposedLink(const std::vector<LinkCost>& known) {
  const auto slowest = std::min_element(known.begin(), known.end(), [](const LinkCost& a, const LinkCost& b) {
    return a.transfer.BytesPerSecond() < b.transfer.BytesPerSecond();
  });
  // What a library does between devices that it was not measured on nobody knows.
  if (slowest != known.end()) return {slowest->transfer, slowest->exchange};
  const LinkModel unknown = LinkModel::Line(kUnknownLinkLatencySeconds, kUnknownLinkBytesPerSecond);
  return {unknown, unknown};
}

}  // namespace medley
