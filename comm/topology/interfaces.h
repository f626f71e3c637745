#pragma once
#include <string>
#include <vector>

// What the kernel says of network interfaces and fabric ports, in /sys.
namespace medley {

struct Interface {
  std::string name;
  std::vector<std::string> lower;  // interfaces that it goes through: of a bond, a VLAN, a macvlan
  double bytes_per_second = 0;     // 0: unknown
  bool is_up = false;              // and has an address
  bool is_loopback = false;
  bool is_virtual = false;  // no device of its own, and goes through none that has
};

struct FabricPort {
  std::string device;  // "mlx5_0"
  int port = 1;
  double bytes_per_second = 0;
  bool is_up = false;
};

struct Networks {
  std::vector<Interface> interfaces;     // by name
  std::vector<FabricPort> fabric_ports;  // by device and port
};

struct AddressedInterface {
  std::string name;
  bool is_loopback = false;
};

// Reads `sys` ("/sys"; another one in tests). What cannot be read counts as unknown, and as down.
// `addressed`: the interfaces that are up and have an IP address; one that `sys` lacks, since it shows
// another network namespace than this process is in, is known by that alone.
Networks ReadNetworks(const std::string& sys, const std::vector<AddressedInterface>& addressed);

// The interfaces of this process's network namespace that are up and have an address, by name. Link-local
// IPv6 addresses do not count: everything has one.
std::vector<AddressedInterface> AddressedInterfaces();

}  // namespace medley
