#include "comm/topology/host_topology.h"

#include <algorithm>

namespace medley {

std::vector<std::string> Nic::names() const {
  std::vector<std::string> all = interfaces;
  all.insert(all.end(), fabric_ports.begin(), fabric_ports.end());
  return all;
}

double Nic::BytesPerSecond() const {
  if (network_bytes_per_second <= 0 || pci_bytes_per_second <= 0) {
    return std::max({network_bytes_per_second, pci_bytes_per_second, 0.0});
  }
  return std::min(network_bytes_per_second, pci_bytes_per_second);
}

}  // namespace medley
