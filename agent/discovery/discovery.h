#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/medley/v1/cluster.pb.h"
#include "runtime/device/device.h"

namespace medley {

// What tells this machine from others: its boot id. Nodes with the same host share cores.
std::string MachineIdentity();

// `available` rounded down to one of 32 steps between powers of two: what a node offers where nothing is configured. Nodes
// of one model, on which a little else runs, then offer the same, and are alike to the planner: otherwise each would be a
// kind of its own, and thousands of them could not be planned for.
Bytes CoarselyRounded(Bytes available);

// What is left of the host's memory, coarsely rounded. 0 B: not known.
Bytes OfferedHostMemory();

// One CPU device of all cores this process may use, the best instruction set, and 80 % of what the host
// offers.
std::vector<v1::Device> DiscoverDevices();
// The same, and all that `backends` find.
std::vector<v1::Device> DiscoverDevices(const std::vector<Backend>& backends);

// Completes what a configuration says of its devices: cores default to all, the variant to the best, kind,
// what it computes in and emulated are filled in. A GPU and an emulated device have no cores; the latter has its
// profile's memory and kind where nothing is said, and its profile's path is made absolute.
// InvalidArgument: a name twice; cores of a GPU; an unknown backend; no memory, or of a processor more than the host
// has or this process's control groups allow; a profile that cannot be read or is not an emulated device's; a device
// that a backend objects to, with its reason. FailedPrecondition: likewise, but it may come, as the driver of one that is
// not there. Internal: the system does not say which cores this process may use.
absl::StatusOr<std::vector<v1::Device>> CompleteDevices(std::vector<v1::Device> devices,
                                                        const std::vector<Backend>& backends);

}  // namespace medley
