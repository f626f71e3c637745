#pragma once
#include <string>
#include <vector>

#include "coordinator/cluster/cluster_view.h"

// Which links there are to measure, and which of them at the same time. Pure.
namespace medley {

// Two devices, as places in a list of them; first < second.
struct DevicePair {
  int first = 0;
  int second = 0;
  friend bool operator==(const DevicePair&, const DevicePair&) = default;
};

// Links of an equal kind take equal times, so that one is measured for all.
//
// Between two machines: what joins the same two nodes (an agent has its own choice of interfaces and
// transports) and devices of the same two kinds; the network decides there, and the kinds say how fast either
// end adds. On one machine the same holds of devices without cores of their own. Devices on a CPU's cores are
// like no other pair there: whether they share a core, a cache or a socket decides, and the coordinator does
// not know it.
//
// Symmetric. "a - b: KIND, KIND", or of a pair like no other "a/cpu0 - b/cpu1: KIND, KIND": a device of
// another kind under an old name is another link.
std::string LinkKind(const ClusterDeviceLocation& a, const ClusterDeviceLocation& b);

// The machine that a device is of: where measurements disturb each other.
std::string MachineOf(const ClusterDeviceLocation& device);

// One pair of each kind that is neither in `known` nor in an earlier pair, in the order of `devices`.
std::vector<DevicePair> PairsToMeasure(const std::vector<ClusterDeviceLocation>& devices,
                                       const std::vector<std::string>& known_kinds);

// `pairs` in rounds: those of a round have no machine, and so no device and no network port, in common. Each
// pair once, in the first round that is free: there are fewer than twice as many rounds as the busiest
// machine has pairs.
std::vector<std::vector<DevicePair>> ProbeRounds(const std::vector<ClusterDeviceLocation>& devices,
                                                 const std::vector<DevicePair>& pairs);

}  // namespace medley
