#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "comm/topology/host_topology.h"
#include "comm/topology/interfaces.h"

namespace medley {

// This host, as this process sees it. Some milliseconds; loads no vendor's library.
// Internal: hwloc cannot read it.
absl::StatusOr<HostTopology> ReadHostTopology();

// The same of what hwloc wrote about a host (`lstopo --of xml`), and of its networks: the shell's inner part,
// for tests and for looking at a host from elsewhere. InvalidArgument: not XML of hwloc.
absl::StatusOr<HostTopology> HostTopologyFromXml(const std::string& xml, const Networks& networks);

// The same of a synthetic description of hwloc ("numa:2 core:4 pu:1"), which has no PCI. InvalidArgument:
// malformed.
absl::StatusOr<HostTopology> HostTopologyFromSynthetic(const std::string& description,
                                                       const Networks& networks);

}  // namespace medley
