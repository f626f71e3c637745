#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "comm/topology/host_topology.h"

namespace medley {

struct PlacedDevice {
  std::string name;  // for the explanations
  Locality locality;
};

// The RDMA devices ("mlx5_0") that can be used, by all of their ports; none: TCP alone. std::nullopt: all of
// the host.
using UsableRdmaDevices = std::optional<std::vector<std::string>>;

struct PlacementOptions {
  // Interfaces or fabric ports, with or without ":port"; empty: all of the host. No other names of a NIC are
  // used; but if these are ports alone and none of them can be used, the interfaces of the same NICs.
  std::vector<std::string> allowed;
  UsableRdmaDevices rdma_devices;  // a NIC that has neither one of these nor an interface is of no use
  int most_rails = 4;              // for each device, at least 1
};

struct NicPlacement {
  // Places in HostTopology::nics: the device's rails, its own first. Empty: there is none to use.
  std::vector<int> nics;
  std::vector<std::string> names;  // theirs, to be used, in the same order
  std::string reason;              // one sentence
};

// How near two places are: the PCI bridges that they share; 0: none, but the NUMA node; -1: neither, or
// unknown.
int Nearness(const Locality& a, const Locality& b);

// For each device its NICs. Pure; the same answer on every worker of the host that asks for the same devices.
//
// The first of these in which NICs that are allowed and up differ decides:
//   1. plugged in rather than virtual, and that rather than the loopback interface;
//   2. not slower than half of the fastest: being far costs half at worst, so nearness never makes up for it;
//   3. the nearest to the device;
//   4. the fastest of those (within a tenth).
// What is left are its rails; devices that share them begin with different ones, as evenly as can be, and if
// there are more than `most_rails`, take those that the fewest others begin with.
//
// InvalidArgument: `allowed` names one that the host does not have, or most_rails is below 1.
absl::StatusOr<std::vector<NicPlacement>> PlaceNics(const HostTopology& topology,
                                                    absl::Span<const PlacedDevice> devices,
                                                    const PlacementOptions& options);

}  // namespace medley
