#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/cluster/cluster_view.h"
#include "proto/medley/v1/cluster.pb.h"

namespace medley {

// What is known of the cluster in one round of looking at what waits. Taken once, so that all jobs of a round are told by the same cluster, and
// sorted by what is asked of it, so that many jobs over many devices cost a look-up each. Devices by their full names.
struct ClusterRound {
  std::vector<NodeSnapshot> nodes;
  std::set<std::string> live, emulated;        // devices
  std::set<std::string> unprotecting;          // those of nodes that know of no protected messages
  std::map<std::string, std::string> holders;  // jobs by their devices
  std::set<std::string> users;                 // all of those jobs
  // What was measured, and by shape the devices, the fastest first, once a job has asked for them.
  std::optional<std::vector<v1::DeviceProfile>> profiles;
  std::map<std::string, std::vector<std::string>> fastest;
};

// Without what jobs ask for later.
ClusterRound LookAround(std::vector<NodeSnapshot> nodes);

}  // namespace medley
