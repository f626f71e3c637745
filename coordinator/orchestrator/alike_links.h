#pragma once
#include <vector>

#include "absl/status/status.h"
#include "coordinator/orchestrator/link_table.h"
#include "runtime/ir/cluster/cluster.h"

namespace medley {

// Up to so many devices every link is planned with as it was measured: the planner looks at them one by one.
inline constexpr int kMostDevicesByLink = 16;

// Adds what is known of the links between `devices` to `cluster`, which has their nodes. Of more than kMostDevicesByLink those
// between devices of the same two kinds, of one LinkLevel, are one class, as the middle one by bandwidth, as far as they are alike
// (AreAlike): a list of all pairs would be as long as the square of the devices, and the planner could not tell that devices may change
// places. Of sites whose ways are not like that, those between two of them are a class of
// their own. Those that are not alike are added by themselves. Errors: those of DecodeClusterLink, naming the pair.
absl::Status AddLinks(const LinkTable& table, const std::vector<ClusterDeviceLocation>& devices,
                      Cluster& cluster);

}  // namespace medley
