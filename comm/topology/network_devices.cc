#include "comm/topology/network_devices.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "comm/topology/read_topology.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

std::optional<int> TrailingNumber(const std::string& text) {
  const auto other =
      std::find_if_not(text.rbegin(), text.rend(), [](unsigned char c) { return std::isdigit(c) != 0; });
  int number = 0;
  if (!absl::SimpleAtoi(std::string(other.base(), text.end()), &number)) return std::nullopt;
  return number;
}

// A variant begins with the number among all ("1", "1:tf32"), or is a number of a group of them and one in it
// ("0:1"), which tells nothing here; then the number is that of the name, as discovery gives it.
std::optional<int> NumberOf(const DeviceDescription& description) {
  const std::vector<std::string> parts = absl::StrSplit(description.variant, ':');
  int number = 0, second = 0;
  if (parts.size() > 1 && absl::SimpleAtoi(parts[1], &second)) return TrailingNumber(description.name);
  if (absl::SimpleAtoi(parts.front(), &number) && number >= 0) return number;
  return TrailingNumber(description.name);
}

// Those that libraries would count: a display adapter of the board's own has a slow link.
std::vector<const Accelerator*> Counted(const HostTopology& topology) {
  double fastest = 0;
  for (const Accelerator& one : topology.accelerators) fastest = std::max(fastest, one.pci_bytes_per_second);
  std::vector<const Accelerator*> counted;
  for (const Accelerator& one : topology.accelerators) {
    if (one.pci_bytes_per_second >= 0.5 * fastest) counted.push_back(&one);
  }
  for (const Accelerator* one : counted) {
    if (one->vendor_id != counted.front()->vendor_id) return {};
  }
  return counted;
}

struct Neighbours {
  std::vector<PlacedDevice> devices;
  int own = 0;  // place of the one that is asked for
};

// As if there were a device at every core.
Neighbours AtCores(const HostTopology& topology, const DeviceDescription& description) {
  Neighbours found;
  std::optional<int> node;
  for (const Core& core : topology.cores) {
    if (core.index == description.cores.front()) found.own = static_cast<int>(found.devices.size());
    if (std::count(description.cores.begin(), description.cores.end(), core.index) > 0) {
      node = !node || *node == core.numa_node ? core.numa_node : -1;
    }
    found.devices.push_back({description.name, {.numa_node = core.numa_node}});
  }
  if (found.devices.empty()) found.devices.push_back({description.name, {}});
  found.devices[found.own].locality.numa_node = node.value_or(-1);
  return found;
}

Neighbours AmongAccelerators(const HostTopology& topology, const DeviceDescription& description) {
  Neighbours found;
  std::vector<const Accelerator*> counted = Counted(topology);
  std::optional<int> own;
  for (const Accelerator& one : topology.accelerators) {
    if (std::count(one.names.begin(), one.names.end(), description.name) == 0) continue;
    const auto place = std::find(counted.begin(), counted.end(), &one);
    own = static_cast<int>(place - counted.begin());
    if (place == counted.end()) counted.push_back(&one);
  }
  if (!own) own = NumberOf(description);
  if (!own || *own >= static_cast<int>(counted.size())) return {.devices = {{description.name, {}}}};
  for (const Accelerator* one : counted) found.devices.push_back({description.name, one->locality});
  found.own = *own;
  return found;
}

}  // namespace

absl::StatusOr<NicPlacement> PlaceNicsOf(const DeviceDescription& description, const std::string& allowed,
                                         const HostTopology& topology,
                                         const UsableRdmaDevices& rdma_devices) {
  const Neighbours neighbours =
      description.cores.empty() ? AmongAccelerators(topology, description) : AtCores(topology, description);
  PlacementOptions options{.rdma_devices = rdma_devices};
  options.allowed = absl::StrSplit(allowed, ',', absl::SkipEmpty());
  ASSIGN_OR_RETURN(const std::vector<NicPlacement> placements,
                   PlaceNics(topology, neighbours.devices, options));
  return placements[neighbours.own];
}

absl::StatusOr<std::string> NetworkDevicesFor(const DeviceDescription& description,
                                              const std::string& allowed,
                                              const UsableRdmaDevices& rdma_devices) {
  ASSIGN_OR_RETURN(const HostTopology topology, ReadHostTopology());
  ASSIGN_OR_RETURN(const NicPlacement placement, PlaceNicsOf(description, allowed, topology, rdma_devices));
  return placement.names.empty() ? allowed : absl::StrJoin(placement.names, ",");
}

}  // namespace medley
