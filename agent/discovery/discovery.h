#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/medley/v1/cluster.pb.h"
#include "runtime/device/device.h"

namespace medley {

// What tells this machine from others: its boot id. Nodes with the same host share cores.
std::string MachineIdentity();

// One CPU device of all cores this process may use, the best instruction set, and 80 % of the memory that is
// free and that its control groups leave it.
std::vector<v1::Device> DiscoverDevices();
// The same, and all that `backends` find.
std::vector<v1::Device> DiscoverDevices(const std::vector<Backend>& backends);

// Completes what a configuration says of its devices: cores default to all, the variant to the best, kind,
// what it computes in and emulated are filled in. A GPU and an emulated device have no cores; the latter has its
// profile's memory and kind where nothing is said, and its profile's path is made absolute.
// InvalidArgument: a name twice; cores of a GPU; an unknown backend; no memory, or of a processor more than the host
// has or this process's control groups allow; a profile that cannot be read or is not an emulated device's; a device
// that a backend objects to, with its reason.
absl::StatusOr<std::vector<v1::Device>> CompleteDevices(std::vector<v1::Device> devices,
                                                        const std::vector<Backend>& backends);

}  // namespace medley
