#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace medley {

// The network interfaces that a session listens on where UCX uses `network_devices`, which may name RDMA
// devices with their port ("eth0,mlx5_0:1"): of such a device, the interfaces that the system has for the
// same hardware. Both as "eth0,ib0"; empty for empty. Names of interfaces are not checked. InvalidArgument:
// there are RDMA devices alone, and none of them has an interface; names one.
absl::StatusOr<std::string> SessionDevices(const std::string& network_devices,
                                           const std::string& rdma_devices = "/sys/class/infiniband");

}  // namespace medley
