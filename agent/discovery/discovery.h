#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/medley/v1/cluster.pb.h"
#include "runtime/device/device.h"

namespace medley {

// What tells this machine from others: its boot id. Nodes with the same host share cores.
std::string MachineIdentity();

// "Intel(R) Xeon(R) Processor @ 2.50GHz", or "unknown processor".
std::string ProcessorName();

// One CPU device of all cores this process may use, the best instruction set, and 80 % of the memory that is free.
std::vector<v1::Device> DiscoverDevices();

// Completes what a configuration says of its devices: memory 0 is not allowed, cores default to all, the variant to the best,
// kind and computes_bf16 are filled in.
// InvalidArgument: a name twice; an unknown backend; a device that a backend objects to, with its reason.
absl::StatusOr<std::vector<v1::Device>> CompleteDevices(std::vector<v1::Device> devices,
                                                        const std::vector<Backend>& backends);

}  // namespace medley
