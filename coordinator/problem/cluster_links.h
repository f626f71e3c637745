#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/predictor/device_links.h"
#include "runtime/ir/cluster/cluster.h"

namespace medley {

// The machine of a node, as HostSlowdown::host has it: its host, or its name if that is empty.
std::string HostOf(const ClusterNode& node);

// A device of a cluster that a job may use.
struct AllowedDevice {
  std::string name;  // "node/device"
  const ClusterNode* node = nullptr;
  const ClusterDevice* device = nullptr;
};

// The links between them, in their order. Those that no link of the cluster names are alike by kind, site and rack, and have
// one end together.
// NotMeasuredError: a pair has no link, no link class that is its, and there is no default_link; names the pair.
absl::StatusOr<DeviceLinks> LinksOf(const std::vector<AllowedDevice>& devices, const Cluster& cluster);

// What is supposed of a link that was not measured, beside those that were: it is as the slowest of them, or, where there
// are none, as a slow Ethernet; without measured sums by a library, which were of other devices.
LinkCost SupposedLink(const std::vector<LinkCost>& known);

}  // namespace medley
