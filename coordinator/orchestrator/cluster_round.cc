#include "coordinator/orchestrator/cluster_round.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace medley {

ClusterRound LookAround(std::vector<NodeSnapshot> nodes) {
  ClusterRound round{.nodes = std::move(nodes)};
  for (const NodeSnapshot& node : round.nodes) {
    for (const ClusterDevice& device : node.description.devices) {
      const std::string name = FullName(node.description.name, device);
      if (node.alive) round.live.insert(name);
      if (device.emulated) round.emulated.insert(name);
      if (!node.description.protects_messages) round.unprotecting.insert(name);
    }
    for (const auto& [device, job] : node.jobs) {
      round.holders[absl::StrCat(node.description.name, "/", device)] = job;
      round.users.insert(job);
    }
  }
  return round;
}

}  // namespace medley
