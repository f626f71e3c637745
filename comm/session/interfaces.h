#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/session/endpoint.h"

namespace medley {

// An address of a network device of this machine that is up.
struct InterfaceAddress {
  std::string device;
  Endpoint endpoint;  // port 0
};

// All of this machine's, IPv4 and IPv6, without IPv6 addresses that are valid on one link only.
// Unavailable: the system does not say.
absl::StatusOr<std::vector<InterfaceAddress>> ReadInterfaces();

// The addresses of the devices that `network_devices` names, as in "eth0,ib0"; of all if it is empty. In the
// order of `interfaces`; at most kMaximumEndpoints. Pure. InvalidArgument: a name that is none of theirs, or
// nothing to listen on at all.
absl::StatusOr<std::vector<Endpoint>> SelectEndpoints(const std::vector<InterfaceAddress>& interfaces,
                                                      const std::string& network_devices);

}  // namespace medley
