#pragma once
#include <vector>

#include "absl/status/statusor.h"
#include "proto/medley/v1/cluster.pb.h"

// Nodes of a cluster's file one by one, and those that are alike as a group.
namespace medley {

// `nodes` and those that `node_groups` stand for; in the order of their names where a group lists names.
// InvalidArgument: a group has a name that none of its nodes could have, lists names as ParseNameList (name_list.h) refuses them, not as many
// as `count`, or one that another node has; both `device` and `devices`, or neither: "node_groups[0].name: ...".
absl::StatusOr<std::vector<v1::Node>> ExpandNodes(const v1::ClusterSpec& cluster);

// Makes groups of nodes that are alike but for their names and what changes while they are alive, each alone on its host. Slow-downs of such
// a host become those of its node. Decoded it is the same cluster as before, but that hosts of nodes in groups have no names. A cluster
// that has groups already, or whose nodes are not in the order of their names, is left as it is: decoded, they would be in another order.
void GroupAlikeNodes(v1::ClusterSpec& cluster);

}  // namespace medley
