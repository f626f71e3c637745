#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/dtype.h"
#include "runtime/device/device_description.h"
#include "runtime/ir/cluster/device_profile.h"
#include "runtime/ir/cluster/host_slowdown.h"
#include "runtime/ir/link/link_model.h"

// What plans are made of: devices, and what was measured of them and of the links between them.
namespace medley {

struct ClusterDevice {
  DeviceDescription description;
  std::string kind;  // devices of equal kind take equal times
  ComputedPrecisions computes;
  bool emulated = false;      // takes time and computes nothing
  double price_per_hour = 0;  // 0: free, or not known
  friend bool operator==(const ClusterDevice&, const ClusterDevice&) = default;
};

// "node/device", the name of a device in plans, jobs and links.
inline std::string FullName(const std::string& node, const ClusterDevice& device) {
  return node + "/" + device.description.name;
}
// The node of such a name.
inline std::string NodeOf(const std::string& device) { return device.substr(0, device.find('/')); }

struct ClusterNode {
  std::string name;
  std::string host;  // the machine: nodes with equal host share cores; empty: alone on its own
  std::vector<ClusterDevice> devices;
  // Of its machine, for layers that live there; all nodes of a machine have it together. 0: not known.
  Bytes host_memory;
  // Which LinkLevel its links are of: where it is, and in which rack there. "" is that of all which say none.
  std::string site, rack;
  int network_cards = 0;  // of its machine, each as fast as a link; 0: not known
  friend bool operator==(const ClusterNode&, const ClusterNode&) = default;
};

struct ClusterLink {
  std::string a, b;  // "node/device", in either order
  LinkCost cost;
  double bytes_per_second = 0;     // as was measured: what links are compared by
  double measured_at_seconds = 0;  // unix
  friend bool operator==(const ClusterLink&, const ClusterLink&) = default;
};

// Which devices a link joins: of one machine, of two of one site and rack, of different racks of one site, of different sites.
enum class LinkLevel : uint8_t { kNode, kSite, kRacks, kSites };
// Of devices of two nodes, or of what else has a site and a rack.
template <typename Place>
LinkLevel LevelBetween(bool on_one_machine, const Place& a, const Place& b) {
  if (on_one_machine) return LinkLevel::kNode;
  if (a.site != b.site) return LinkLevel::kSites;
  return a.rack == b.rack ? LinkLevel::kSite : LinkLevel::kRacks;
}

// Links that are alike: between devices of two kinds (empty: any) and, of level kSites alone, at two sites (none: any), in either order.
struct ClusterLinkClass {
  LinkLevel level = LinkLevel::kSite;
  std::string a_kind, b_kind;
  LinkCost cost;
  std::optional<std::string> a_site, b_site;
  // A device at one end.
  struct End {
    std::string_view kind, site;
  };
  // Whether the class is of these two as far as kinds and sites say, the level aside.
  bool Joins(const End& a, const End& b) const {
    const auto is = [](const std::string& kind, const std::optional<std::string>& site, const End& end) {
      return (kind.empty() || kind == end.kind) && (!site || *site == end.site);
    };
    return (is(a_kind, a_site, a) && is(b_kind, b_site, b)) ||
           (is(a_kind, a_site, b) && is(b_kind, b_site, a));
  }
  friend bool operator==(const ClusterLinkClass&, const ClusterLinkClass&) = default;
};

struct Cluster {
  std::vector<ClusterNode> nodes;
  std::vector<DeviceProfile> profiles;
  std::vector<ClusterLink> links;
  std::vector<ClusterLinkClass>
      link_classes;                      // of pairs that `links` does not have; the last that joins them
  std::optional<LinkCost> default_link;  // of pairs that neither has
  // By host and shape. A few hosts stand for all with devices of the same kinds; devices of hosts like which there is none do not
  // slow each other down, but for those that share cores.
  std::vector<HostSlowdown> slowdowns;
  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// Of a level, the last class that joins two devices, and between racks, where none does, that of their site; null: there is none.
inline const ClusterLinkClass* ClassBetween(const Cluster& cluster, LinkLevel level,
                                            const ClusterLinkClass::End& a, const ClusterLinkClass::End& b) {
  for (auto link = cluster.link_classes.rbegin(); link != cluster.link_classes.rend(); ++link) {
    if (link->level == level && link->Joins(a, b)) return &*link;
  }
  return level == LinkLevel::kRacks ? ClassBetween(cluster, LinkLevel::kSite, a, b) : nullptr;
}

// Those of its nodes; "" is that of nodes which say none.
inline std::set<std::string> SitesOf(const Cluster& cluster) {
  std::set<std::string> sites;
  for (const ClusterNode& node : cluster.nodes) sites.insert(node.site);
  return sites;
}

}  // namespace medley
