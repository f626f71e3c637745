#pragma once
#include <string>
#include <vector>

// What a host's buses look like, as plain values: where its accelerators and NICs are.
namespace medley {

// Where on the host something is plugged in.
struct Locality {
  // As the operating system numbers it; -1: unknown, or near several.
  int numa_node = -1;
  // Names of the PCI bridges above it, the host bridge first: two things share as many as are equal from the
  // front. Empty: not on PCI, or unknown.
  std::vector<std::string> bridges;
};

struct Nic {
  std::string pci_address;                // "0000:3b:00.0"; empty: not on PCI
  std::vector<std::string> interfaces;    // network interfaces with an address of their own: "eth0"
  std::vector<std::string> fabric_ports;  // RDMA, as UCX names them: "mlx5_0:1"
  Locality locality;
  // What its links carry at most, one way; 0: unknown.
  double network_bytes_per_second = 0;
  double pci_bytes_per_second = 0;
  bool is_up = false;
  bool is_loopback = false;
  bool is_virtual = false;  // a bridge, a tunnel, a container's end: nothing of its own that is plugged in

  // Interfaces, then fabric ports.
  std::vector<std::string> names() const;
  // What goes through both of its links; 0: neither is known.
  double BytesPerSecond() const;
};

struct Accelerator {
  std::string pci_address;
  std::vector<std::string> names;   // as the operating system or libraries name it; may be empty
  unsigned vendor_id = 0;           // of PCI
  double pci_bytes_per_second = 0;  // 0: unknown
  Locality locality;
};

struct Core {
  int index = 0;  // as the operating system numbers it
  int numa_node = -1;
};

struct HostTopology {
  std::vector<Core> cores;                // ascending by index
  std::vector<Accelerator> accelerators;  // ascending by PCI address
  std::vector<Nic> nics;                  // those on PCI first, ascending by PCI address; then by name
};

}  // namespace medley
