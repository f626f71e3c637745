#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/session/interfaces.h"

namespace medley {

// The network interfaces that a session listens on where UCX uses `network_devices`, which may name RDMA
// devices with their port ("eth0,mlx5_0:1"): the interfaces that it names, and of such a device those of the
// same hardware. RDMA needs no address, and a session does: if none of that hardware's is among `addressed`,
// and no interface is named, those of them that `allowed` names in the same way. As in "eth0,ib0"; empty: all.
// Names of interfaces are not checked.
// InvalidArgument: `allowed` names none of `addressed` either; quotes it.
absl::StatusOr<std::string> SessionDevices(const std::string& network_devices, const std::string& allowed,
                                           const std::vector<InterfaceAddress>& addressed,
                                           const std::string& rdma_devices = "/sys/class/infiniband");

}  // namespace medley
