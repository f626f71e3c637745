#include "comm/topology/read_topology.h"

#include <hwloc.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using Loaded = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;

absl::StatusOr<Loaded> NewTopology() {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return absl::InternalError("hwloc cannot start");
  Loaded topology(made, &hwloc_topology_destroy);
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  // Plugins that load drivers of accelerators and displays, which a process must not do before it has chosen
  // its device.
  for (const char* plugin : {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"}) {
    hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, plugin);
  }
  return topology;
}

int NumaNodeOf(hwloc_obj_t object) {
  while (object != nullptr && object->nodeset == nullptr) object = object->parent;
  if (object == nullptr || hwloc_bitmap_weight(object->nodeset) != 1) return -1;
  return hwloc_bitmap_first(object->nodeset);
}

std::string AddressOf(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  return absl::StrFormat("%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.dev, pci.func);
}

std::string AddressOfBridge(hwloc_obj_t bridge) {
  const auto& attributes = bridge->attr->bridge;
  if (attributes.upstream_type == HWLOC_OBJ_BRIDGE_PCI) return AddressOf(attributes.upstream.pci);
  const auto& below = attributes.downstream.pci;
  return absl::StrFormat("%04x:[%02x-%02x]", below.domain, below.secondary_bus, below.subordinate_bus);
}

Locality LocalityOf(hwloc_obj_t device) {
  Locality found{.numa_node = NumaNodeOf(device)};
  for (hwloc_obj_t above = device->parent; above != nullptr; above = above->parent) {
    if (above->type == HWLOC_OBJ_BRIDGE) found.bridges.push_back(AddressOfBridge(above));
  }
  std::reverse(found.bridges.begin(), found.bridges.end());
  return found;
}

bool IsAccelerator(unsigned pci_class) {
  constexpr unsigned kDisplay = 0x03, kProcessing = 0x12;
  return pci_class >> 8 == kDisplay || pci_class >> 8 == kProcessing;
}

// Puts the names that the networks know under the NICs that hwloc found them at.
class NicCollector {
 public:
  explicit NicCollector(const Networks& networks) : networks_(networks) {}

  void Add(hwloc_obj_t pci, hwloc_obj_t os_device) {
    const auto& attributes = pci->attr->pcidev;
    Nic& nic = by_address_[AddressOf(attributes)];
    nic.pci_address = AddressOf(attributes);
    nic.locality = LocalityOf(pci);
    nic.pci_bytes_per_second = attributes.linkspeed * 1e9;
    const std::string name = os_device->name == nullptr ? "" : os_device->name;
    if (os_device->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) {
      address_of_interface_[name] = nic.pci_address;
      const Interface* interface = Find(name);
      if (interface != nullptr && interface->is_up) AddInterface(nic, *interface);
    } else {
      AddPorts(nic, name);
    }
  }

  // What hwloc does not place: goes through NICs that it does, or is a NIC of its own somewhere unknown.
  std::vector<Nic> Finish() {
    std::vector<Nic> elsewhere;
    for (const Interface& interface : networks_.interfaces) {
      if (!interface.is_up || address_of_interface_.count(interface.name) > 0) continue;
      Nic* through = Lowest(interface, 0);
      if (through != nullptr) {
        AddInterface(*through, interface);
        continue;
      }
      elsewhere.push_back({.is_loopback = interface.is_loopback, .is_virtual = interface.is_virtual});
      AddInterface(elsewhere.back(), interface);
    }
    std::vector<Nic> all;
    for (auto& [address, nic] : by_address_) all.push_back(std::move(nic));
    all.insert(all.end(), elsewhere.begin(), elsewhere.end());
    return all;
  }

 private:
  const Interface* Find(const std::string& name) const {
    for (const Interface& one : networks_.interfaces) {
      if (one.name == name) return &one;
    }
    return nullptr;
  }

  static void AddInterface(Nic& nic, const Interface& interface) {
    nic.interfaces.push_back(interface.name);
    nic.network_bytes_per_second = std::max(nic.network_bytes_per_second, interface.bytes_per_second);
    nic.is_up = true;
  }

  void AddPorts(Nic& nic, const std::string& device) {
    for (const FabricPort& port : networks_.fabric_ports) {
      if (port.device != device || !port.is_up) continue;
      nic.fabric_ports.push_back(absl::StrCat(device, ":", port.port));
      nic.network_bytes_per_second = std::max(nic.network_bytes_per_second, port.bytes_per_second);
      nic.is_up = true;
    }
  }

  // The first NIC that the interface goes through; null: none.
  Nic* Lowest(const Interface& interface, int depth) {
    constexpr int kDeepest = 4;  // a VLAN of a bond of ...
    for (const std::string& name : interface.lower) {
      const auto placed = address_of_interface_.find(name);
      if (placed != address_of_interface_.end()) return &by_address_[placed->second];
      const Interface* lower = Find(name);
      Nic* const through = lower == nullptr || depth == kDeepest ? nullptr : Lowest(*lower, depth + 1);
      if (through != nullptr) return through;
    }
    return nullptr;
  }

  const Networks& networks_;
  std::map<std::string, Nic> by_address_;
  std::map<std::string, std::string> address_of_interface_;
};

HostTopology Convert(hwloc_topology_t topology, const Networks& networks) {
  HostTopology host;
  for (hwloc_obj_t unit = nullptr;
       (unit = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, unit)) != nullptr;) {
    host.cores.push_back({static_cast<int>(unit->os_index), NumaNodeOf(unit)});
  }
  std::sort(host.cores.begin(), host.cores.end(),
            [](const Core& a, const Core& b) { return a.index < b.index; });
  NicCollector nics(networks);
  std::map<std::string, Accelerator> accelerators;
  for (hwloc_obj_t pci = nullptr; (pci = hwloc_get_next_pcidev(topology, pci)) != nullptr;) {
    const auto& attributes = pci->attr->pcidev;
    if (IsAccelerator(attributes.class_id)) {
      accelerators[AddressOf(attributes)] = {.pci_address = AddressOf(attributes),
                                             .vendor_id = attributes.vendor_id,
                                             .pci_bytes_per_second = attributes.linkspeed * 1e9,
                                             .locality = LocalityOf(pci)};
    }
  }
  for (hwloc_obj_t device = nullptr; (device = hwloc_get_next_osdev(topology, device)) != nullptr;) {
    hwloc_obj_t pci = device->parent;
    while (pci != nullptr && pci->type != HWLOC_OBJ_PCI_DEVICE) pci = pci->parent;
    if (pci == nullptr) continue;
    const auto type = device->attr->osdev.type;
    const auto accelerator = accelerators.find(AddressOf(pci->attr->pcidev));
    if (type == HWLOC_OBJ_OSDEV_NETWORK || type == HWLOC_OBJ_OSDEV_OPENFABRICS) {
      nics.Add(pci, device);
    } else if (accelerator != accelerators.end() && device->name != nullptr) {
      accelerator->second.names.push_back(device->name);
    }
  }
  for (auto& [address, accelerator] : accelerators) host.accelerators.push_back(std::move(accelerator));
  host.nics = nics.Finish();
  return host;
}

}  // namespace

absl::StatusOr<HostTopology> ReadHostTopology() {
  ASSIGN_OR_RETURN(const Loaded topology, NewTopology());
  if (hwloc_topology_load(topology.get()) != 0)
    return absl::InternalError("hwloc cannot read this host's topology");
  return Convert(topology.get(), ReadNetworks("/sys", AddressedInterfaces()));
}

absl::StatusOr<HostTopology> HostTopologyFromXml(const std::string& xml, const Networks& networks) {
  ASSIGN_OR_RETURN(const Loaded topology, NewTopology());
  if (hwloc_topology_set_xmlbuffer(topology.get(), xml.c_str(), static_cast<int>(xml.size()) + 1) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    return absl::InvalidArgumentError("not an XML topology of hwloc");
  }
  return Convert(topology.get(), networks);
}

absl::StatusOr<HostTopology> HostTopologyFromSynthetic(const std::string& description,
                                                       const Networks& networks) {
  ASSIGN_OR_RETURN(const Loaded topology, NewTopology());
  if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", description, "\" is no synthetic topology of hwloc"));
  }
  return Convert(topology.get(), networks);
}

}  // namespace medley
