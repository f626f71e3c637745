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

// Links of one class are expected to be alike although they join other nodes: where there are many, a few are measured
// for all (link_samples.h).
//
// Between two machines: devices of the same two kinds, in the same two networks and at the same two sites; within a site those inside any
// one rack, those between any two racks, and those of nodes whose racks have no names. On one machine: devices of the same two kinds, those on a CPU's cores also of the same cores.
//
// Symmetric, for people, at most 1024 characters.
std::string LinkClass(const ClusterDeviceLocation& a, const ClusterDeviceLocation& b);

// What decides of a device which classes its links to other machines are of: its network, its node's site and rack, and its kind. Racks
// count only as the same or not, so the class of a link says all but these.
std::string EndOfClass(const ClusterDeviceLocation& device);
std::string EndBesidesRack(const ClusterDeviceLocation& device);

// The network of a node, by what its agent's address ("host:port") says: the first 24 bits of an IPv4 address, the first
// 64 of an IPv6 address, a name's domain. Empty: a name without a domain.
std::string NetworkOf(const std::string& agent_address);

// Probes at a time, at most: each takes two agents and a few threads here.
inline constexpr size_t kMostProbesTogether = 32;

// `pairs` in rounds of at most kMostProbesTogether: those of a round have no machine, and so no device and no network
// port, in common. Each pair once, in the first round that has room: but for full ones there are fewer than twice as
// many rounds as the busiest machine has pairs.
std::vector<std::vector<DevicePair>> ProbeRounds(const std::vector<ClusterDeviceLocation>& devices,
                                                 const std::vector<DevicePair>& pairs);

}  // namespace medley
