#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "comm/topology/host_topology.h"
#include "comm/topology/place_nics.h"
#include "runtime/device/device_description.h"

namespace medley {

// Which device `description` is on this host, and which NICs are its own. Pure.
//
// A device with cores is where these are; another one is the accelerator of that name, or, where no library
// named them, the one of its number (that of variant "3", else of name "gpu3") among those with the fastest
// PCI link, which must be one vendor's. All such devices of the host are placed together, so that every
// worker sees its neighbours' choice without asking them. A device that cannot be found is nowhere: it gets
// what all could use.
//
// `rdma_devices`: as of PlacementOptions.
//
// InvalidArgument: `allowed` names ("eth0,eth1"; empty: any) one that the host does not have.
absl::StatusOr<NicPlacement> PlaceNicsOf(const DeviceDescription& description, const std::string& allowed,
                                         const HostTopology& topology,
                                         const UsableRdmaDevices& rdma_devices = {});

// The same on this host, as UcxTransport::Options::network_devices wants it. `allowed` as it is where nothing
// of that is up and can be used.
//
// InvalidArgument: as above. Internal: the topology cannot be read.
absl::StatusOr<std::string> NetworkDevicesFor(const DeviceDescription& description,
                                              const std::string& allowed,
                                              const UsableRdmaDevices& rdma_devices = {});

}  // namespace medley
