#pragma once
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "runtime/ir/cluster/cluster.h"

// A cluster as it would be with other devices or links. Pure; where something is wrong the cluster stays as it was.
namespace medley {

struct AddedDevices {
  std::string kind;
  int count = 1;
  std::string node;                      // its name; empty: "added-0", "added-1", ...
  std::optional<double> price_per_hour;  // of each; none: as others of its kind
  // Where its node is; none: where the first node of its kind is, or of a kind that is not there the first of all; in a rack of another site
  // than that none.
  std::optional<std::string> site, rack;
  // What a device of a kind is like that the cluster does not have, and what joins those of a node; none: not known.
  std::optional<ClusterDevice> like;
  std::optional<LinkCost> link_of_node;
};

// A node more, with so many devices of a kind. Of a kind that the cluster has they are as its first one is, with the site,
// the rack and the host memory of that one's node, and where links are given pair by pair each has those that a device of its
// kind has, as far as there are any; classes of links join them as all others, and what then still has no link has the
// slowest that there is between machines (SupposedLink). Its devices slow each
// other down as was measured on nodes like it, if on any.
// `before`: the cluster before devices were removed of it, whose kinds and links still tell what those added are like; null: as
// `cluster`.
// InvalidArgument: there is no such kind and none is described (names those that there are); the node is there
// already; fewer than one device; no node is at the site (names those that there are).
absl::Status AddDevices(const AddedDevices& added, Cluster& cluster, const Cluster* before = nullptr);

// Without a node, without all nodes of a group ("new" of "new-0", "new-1", ...) or without one device ("node/device"). There may
// be nothing left.
// InvalidArgument: it is none of these, names what there is.
absl::Status RemoveDevices(const std::string& name, Cluster& cluster);

// With other links between two devices ("node/device"), nodes, groups of nodes, kinds or sites. Links of kinds are those
// between machines, of two sites those between the two alone. `latency_seconds`: none: as it is today. Measured sums by a
// library take so many times as long as today as a byte takes; where today's links are not all known none are.
// InvalidArgument: a name is none of these, names what there is; nothing joins them; one site with itself, and there are others, too.
absl::Status SetLink(const std::string& a, const std::string& b, double bytes_per_second,
                     std::optional<double> latency_seconds, Cluster& cluster);

// Whether SetLink knows the name.
bool IsEndOfLinks(const std::string& name, const Cluster& cluster);

// For people: the kinds, nodes and sites that there are.
std::string DescribeNames(const Cluster& cluster);

}  // namespace medley
