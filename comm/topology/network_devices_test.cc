#include "comm/topology/network_devices.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "comm/topology/read_topology.h"

namespace medley {
namespace {

// What hwloc would write, on lines of their own where its least parser wants them, of a host with two NUMA
// nodes of two cores, and `switches` PCI switches, half of them on each node; under each an accelerator and a
// NIC that has an interface and a fabric device. The first node has the board's own display adapter too.
class XmlHost {
 public:
  explicit XmlHost(int switches) {
    std::string packages, buses;
    for (int node = 0; node < 2; ++node) {
      const std::string sets = Sets(absl::StrFormat("0x%08x", 3 << (2 * node)), 1 << node);
      absl::StrAppend(&packages, Open("Package", node, sets),
                      Open("NUMANode", node, sets + " local_memory=\"1024\""), "</object>");
      for (int core = 2 * node; core < 2 * node + 2; ++core) {
        const std::string its = Sets(absl::StrFormat("0x%08x", 1 << core), 1 << node);
        absl::StrAppend(&packages, Open("Core", core, its), Open("PU", core, its), "</object></object>");
      }
      absl::StrAppend(&packages, HostBridge(node * 0x80),
                      node == 0 ? Device(0x02, "0300 [1a03:2000]", 0.25, "") : "");
      for (int i = node * switches / 2; i < (node + 1) * switches / 2; ++i)
        absl::StrAppend(&packages, Switch(i, node));
      absl::StrAppend(&packages, "</object></object>");
    }
    xml_ = absl::StrCat(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
        "<topology version=\"2.0\">\n",
        Open("Machine", 0, Sets("0x0000000f", 3)), packages, "</object></topology>");
    for (int i = 0; i < switches; ++i) {
      networks_.interfaces.push_back(
          {.name = absl::StrCat("eth", i), .bytes_per_second = 50e9, .is_up = true});
      networks_.fabric_ports.push_back(
          {.device = absl::StrCat("rdma", i), .bytes_per_second = 50e9, .is_up = true});
    }
    networks_.interfaces.push_back({.name = "lo", .is_up = true, .is_loopback = true});
    networks_.interfaces.push_back({.name = "docker0", .is_up = true, .is_virtual = true});
  }

  Networks& networks() { return networks_; }
  HostTopology Read() const {
    auto topology = HostTopologyFromXml(xml_, networks_);
    REQUIRE(topology.status() == absl::OkStatus());
    return *std::move(topology);
  }

 private:
  static std::string Sets(const std::string& cores, int nodes) {
    std::string text;
    for (const char* prefix : {"", "complete_", "allowed_"}) {
      absl::StrAppendFormat(&text, " %scpuset=\"%s\" %snodeset=\"0x%08x\"", prefix, cores, prefix, nodes);
    }
    return text;
  }
  std::string Open(const std::string& type, int index, const std::string& attributes) {
    return absl::StrFormat("<object type=\"%s\" os_index=\"%d\" gp_index=\"%d\"%s>", type, index, ++id_,
                           attributes);
  }
  std::string HostBridge(int bus) {
    return absl::StrFormat(
        "<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"0-1\" depth=\"0\" "
        "bridge_pci=\"0000:[%02x-%02x]\">",
        ++id_, bus, bus + 0x7f);
  }
  std::string Device(int bus, const std::string& type, double speed, const std::string& inside) {
    return absl::StrFormat(
        "<object type=\"PCIDev\" gp_index=\"%d\" pci_busid=\"0000:%02x:00.0\" pci_type=\"%s [0000:0000] 00\" "
        "pci_link_speed=\"%f\">%s</object>",
        ++id_, bus, type, speed, inside);
  }
  std::string OsDevice(const std::string& name, int type) {
    return absl::StrFormat("<object type=\"OSDev\" gp_index=\"%d\" name=\"%s\" osdev_type=\"%d\"/>", ++id_,
                           name, type);
  }
  std::string Switch(int i, int node) {
    const int bus = node * 0x80 + 0x10 + 4 * i;
    return absl::StrCat(
        absl::StrFormat("<object type=\"Bridge\" gp_index=\"%d\" bridge_type=\"1-1\" depth=\"1\" "
                        "bridge_pci=\"0000:[%02x-%02x]\" pci_busid=\"0000:%02x:%02x.0\" "
                        "pci_type=\"0604 [10b5:9797] [0000:0000] 00\" pci_link_speed=\"63.0\">",
                        ++id_, bus, bus + 3, node * 0x80, i + 1),
        Device(bus + 1, "0302 [10de:2330]", 63, ""),
        Device(bus + 2, "0207 [15b3:1021]", 63,
               OsDevice(absl::StrCat("eth", i), 2) + OsDevice(absl::StrCat("rdma", i), 3)),
        "</object>");
  }

  int id_ = 0;
  std::string xml_;
  Networks networks_;
};

DeviceDescription Gpu(int number) {
  return {.name = absl::StrCat("gpu", number), .backend = "some", .variant = absl::StrCat(number)};
}

std::string Chosen(const HostTopology& host, const DeviceDescription& device,
                   const std::string& allowed = "") {
  const auto placed = PlaceNicsOf(device, allowed, host);
  REQUIRE(placed.status() == absl::OkStatus());
  std::string names;
  for (const int nic : placed->nics)
    absl::StrAppend(&names, names.empty() ? "" : ",", host.nics[nic].interfaces.at(0));
  return names;
}

TEST_CASE("a host's XML gives its cores, accelerators and NICs with what is above them") {
  const HostTopology host = XmlHost(4).Read();
  REQUIRE(host.cores.size() == 4);
  CHECK(host.cores[1].numa_node == 0);
  CHECK(host.cores[2].numa_node == 1);
  REQUIRE(host.accelerators.size() == 5);  // with the display adapter
  REQUIRE(host.nics.size() == 6);
  const Nic& third = host.nics[2];
  CHECK(third.names() == std::vector<std::string>{"eth2", "rdma2:1"});
  CHECK(third.locality.numa_node == 1);
  CHECK(third.locality.bridges == std::vector<std::string>{"0000:[80-ff]", "0000:80:03.0"});
  CHECK(third.pci_bytes_per_second == 63e9);
  CHECK(third.BytesPerSecond() == 50e9);
  CHECK(host.nics[4].is_virtual != host.nics[5].is_virtual);
  CHECK(host.nics[4].is_loopback != host.nics[5].is_loopback);
}

TEST_CASE("every accelerator gets the NIC under its switch") {
  const HostTopology host = XmlHost(8).Read();
  for (int i = 0; i < 8; ++i) CHECK(Chosen(host, Gpu(i)) == absl::StrCat("eth", i));
  CHECK(Chosen(host, {.name = "gpu5", .variant = "0:1"}) == "eth5");
  CHECK(Chosen(host, {.name = "gpu5", .variant = "2:tf32"}) == "eth2");
  CHECK(Chosen(host, Gpu(2), "eth6,eth7") == "eth6,eth7");
  const auto placed = PlaceNicsOf(Gpu(2), "", host, std::vector<std::string>{"rdma1"});
  REQUIRE(placed.status() == absl::OkStatus());
  CHECK(placed->names == std::vector<std::string>{"eth2"});  // its own RDMA device is none that can be used
}

TEST_CASE("a core gets the NICs of its NUMA node, and other cores begin with others") {
  const HostTopology host = XmlHost(4).Read();
  CHECK(Chosen(host, {.name = "cpu0", .cores = {0}}) == "eth0,eth1");
  CHECK(Chosen(host, {.name = "cpu1", .cores = {1}}) == "eth1,eth0");
  CHECK(Chosen(host, {.name = "cpu2", .cores = {2, 3}}) == "eth2,eth3");
  CHECK(Chosen(host, {.name = "both", .cores = {1, 2}}).size() == 4 * 4 + 3);
}

TEST_CASE("a device that is not found is nowhere: all NICs are as good") {
  const HostTopology host = XmlHost(4).Read();
  CHECK(Chosen(host, Gpu(4)) == "eth0,eth1,eth2,eth3");
  CHECK(Chosen(host, {.name = "emulated"}) == "eth0,eth1,eth2,eth3");
}

TEST_CASE("accelerators that a library named are found by name, whatever their order") {
  HostTopology host = XmlHost(4).Read();
  host.accelerators[1].names = {"gpu3"};
  CHECK(Chosen(host, {.name = "gpu3"}) == "eth0");
}

TEST_CASE("with accelerators of two vendors a number says nothing") {
  HostTopology host = XmlHost(4).Read();
  host.accelerators.back().vendor_id = 0x1002;
  CHECK(Chosen(host, Gpu(1)) == "eth0,eth1,eth2,eth3");
}

TEST_CASE("a bond is where what it goes through is") {
  XmlHost host(4);
  for (Interface& interface : host.networks().interfaces) interface.is_up = interface.is_loopback;
  host.networks().fabric_ports.clear();
  host.networks().interfaces.push_back(
      {.name = "bond0", .lower = {"eth2"}, .is_up = true, .is_virtual = true});
  host.networks().interfaces.push_back(
      {.name = "vlan9", .lower = {"bond1"}, .is_up = true, .is_virtual = true});
  host.networks().interfaces.push_back(
      {.name = "bond1", .lower = {"eth1"}, .is_up = false, .is_virtual = true});
  const HostTopology read = host.Read();
  CHECK(Chosen(read, Gpu(2)) == "bond0");
  CHECK(Chosen(read, Gpu(1)) == "vlan9");
}

TEST_CASE("a synthetic host has no PCI, and its cores share what there is") {
  Networks networks;
  networks.interfaces = {{.name = "eth0", .is_up = true}, {.name = "lo", .is_up = true, .is_loopback = true}};
  const auto host = HostTopologyFromSynthetic("numa:2 core:4 pu:1", networks);
  REQUIRE(host.status() == absl::OkStatus());
  CHECK(host->cores.size() == 8);
  CHECK(host->cores[4].numa_node == 1);
  CHECK(Chosen(*host, {.name = "cpu0", .cores = {5}}) == "eth0");
}

TEST_CASE("what is no topology is refused") {
  CHECK(HostTopologyFromXml("<topology", {}).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(HostTopologyFromXml("", {}).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(HostTopologyFromSynthetic("core:x", {}).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("this host gives a device something that is here, and refuses what is not") {
  const auto chosen = NetworkDevicesFor({.name = "cpu0", .cores = {0}}, "");
  REQUIRE(chosen.status() == absl::OkStatus());
  INFO(*chosen);
  if (!AddressedInterfaces().empty()) CHECK(!chosen->empty());
  CHECK(NetworkDevicesFor({.name = "cpu0", .cores = {0}}, "lo").value() == "lo");
  const auto unknown = NetworkDevicesFor({.name = "cpu0", .cores = {0}}, "nowhere7");
  CHECK(unknown.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(unknown.status().message().find("\"nowhere7\" is no network device here") != absl::string_view::npos);
}

}  // namespace
}  // namespace medley
