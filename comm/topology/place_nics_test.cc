#include "comm/topology/place_nics.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace medley {
namespace {

constexpr double kFast = 50e9, kHalf = 25e9, kGigabit = 0.125e9;
using Devices = std::vector<std::string>;
const UsableRdmaDevices kNoRdma = Devices();

// Under a switch of its own on a NUMA node.
Locality Under(int node, int pci_switch) {
  return {node,
          {absl::StrCat("host", node), absl::StrCat("port", pci_switch), absl::StrCat("switch", pci_switch)}};
}

Nic NicAt(const std::string& name, Locality locality, double bytes_per_second = kFast) {
  return {.interfaces = {name},
          .locality = std::move(locality),
          .network_bytes_per_second = bytes_per_second,
          .is_up = true};
}

Nic Loopback() { return {.interfaces = {"lo"}, .is_up = true, .is_loopback = true}; }

std::vector<NicPlacement> Place(const HostTopology& topology, const std::vector<PlacedDevice>& devices,
                                const PlacementOptions& options = {}) {
  auto placed = PlaceNics(topology, devices, options);
  REQUIRE(placed.status() == absl::OkStatus());
  REQUIRE(placed->size() == devices.size());
  for (const NicPlacement& one : *placed) UNSCOPED_INFO(one.reason);
  return *std::move(placed);
}

std::vector<int> Rails(const NicPlacement& placement) { return placement.nics; }

bool Says(const NicPlacement& placement, const std::string& wanted) {
  return placement.reason.find(wanted) != std::string::npos;
}

TEST_CASE("nearness is the bridges shared, then the NUMA node") {
  CHECK(Nearness(Under(0, 1), Under(0, 1)) == 3);
  CHECK(Nearness(Under(0, 1), Under(0, 2)) == 1);
  CHECK(Nearness(Under(0, 1), Under(1, 3)) == -1);
  CHECK(Nearness(Under(0, 1), {.numa_node = 0}) == 0);
  CHECK(Nearness({.numa_node = -1}, {.numa_node = -1}) == -1);
  CHECK(Nearness({}, Under(0, 1)) == -1);
}

TEST_CASE("eight accelerators with a NIC each under their switch use it and no other") {
  HostTopology host;
  std::vector<PlacedDevice> devices;
  for (int i = 0; i < 8; ++i) {
    // Listed backwards, so that taking the first by number would be wrong.
    host.nics.push_back(NicAt(absl::StrCat("nic", 7 - i), Under((7 - i) / 4, 7 - i)));
    devices.push_back({absl::StrCat("gpu", i), Under(i / 4, i)});
  }
  host.nics.push_back(Loopback());
  const auto placed = Place(host, devices);
  for (int i = 0; i < 8; ++i) {
    CHECK(Rails(placed[i]) == std::vector{7 - i});
    CHECK(Says(placed[i], absl::StrCat("gpu", i, " uses nic", i, ": under the same PCI switch")));
  }
}

TEST_CASE("two accelerators and two NICs a switch: both rails, each begins with another") {
  HostTopology host;
  std::vector<PlacedDevice> devices;
  for (int i = 0; i < 8; ++i) {
    host.nics.push_back(NicAt(absl::StrCat("nic", i), Under(i / 4, i / 2)));
    devices.push_back({absl::StrCat("gpu", i), Under(i / 4, i / 2)});
  }
  const auto placed = Place(host, devices);
  for (int i = 0; i < 8; ++i) CHECK(Rails(placed[i]) == std::vector{i, i ^ 1});
  const auto single = Place(host, devices, {.most_rails = 1});
  for (int i = 0; i < 8; ++i) CHECK(Rails(single[i]) == std::vector{i});
}

TEST_CASE("devices spread evenly over equal NICs, whatever their number") {
  for (int devices = 1; devices <= 9; ++devices) {
    for (int nics = 1; nics <= 5; ++nics) {
      CAPTURE(devices, nics);
      HostTopology host;
      for (int i = 0; i < nics; ++i) host.nics.push_back(NicAt(absl::StrCat("nic", i), {.numa_node = 0}));
      const std::vector<PlacedDevice> all(devices, {"cpu", {.numa_node = 0}});
      std::map<int, int> firsts, used;
      for (const NicPlacement& one : Place(host, all, {.most_rails = 2})) {
        CHECK(one.nics.size() == std::min<size_t>(nics, 2));
        ++firsts[one.nics.front()];
        for (const int nic : one.nics) ++used[nic];
      }
      for (int i = 0; i < nics; ++i) {
        CHECK(firsts[i] >= devices / nics);
        CHECK(firsts[i] <= (devices + nics - 1) / nics);
      }
    }
  }
}

TEST_CASE("who has one choice gets it, though it comes last") {
  HostTopology host;
  host.nics = {NicAt("shared", {1, {"host", "switch"}}),
               NicAt("other", {1, {"host", "switch"}}, kFast * 0.95)};
  host.nics.push_back(NicAt("own", {0, {}}));
  // The first two see both; a third sees "shared" alone, since it lies deeper under the same bridges.
  host.nics[0].locality.bridges.push_back("inner");
  const std::vector<PlacedDevice> devices = {{"wide", {1, {"host", "switch"}}},
                                             {"narrow", {1, {"host", "switch", "inner"}}}};
  const auto placed = Place(host, devices, {.most_rails = 1});
  CHECK(Rails(placed[1]) == std::vector{0});
  CHECK(Rails(placed[0]) == std::vector{1});
}

TEST_CASE("a NIC on the wrong NUMA node is passed over, unless it is the only one") {
  HostTopology host;
  host.nics = {NicAt("far", Under(1, 4)), NicAt("near", Under(0, 2))};
  const std::vector<PlacedDevice> devices = {{"gpu0", Under(0, 1)}, {"cpu0", {.numa_node = 0}}};
  const auto placed = Place(host, devices);
  CHECK(Rails(placed[0]) == std::vector{1});
  CHECK(Says(placed[0], "under the same PCI host bridge"));
  CHECK(Says(placed[0], "not far (farther)"));
  CHECK(Rails(placed[1]) == std::vector{1});
  CHECK(Says(placed[1], "on the same NUMA node"));
  host.nics.pop_back();
  const auto only = Place(host, devices);
  CHECK(Rails(only[0]) == std::vector{0});
  CHECK(Says(only[0], "not known to be near"));
}

TEST_CASE("with no NIC near, all that are as far are rails") {
  HostTopology host;
  host.nics = {NicAt("a", Under(1, 4)), NicAt("b", Under(1, 5)), NicAt("somewhere", {})};
  CHECK(Rails(Place(host, {{"gpu0", Under(0, 1)}})[0]) == std::vector{0, 1, 2});
  CHECK(Rails(Place(host, {{"nowhere", {}}})[0]) == std::vector{0, 1, 2});
}

TEST_CASE("of two as near the slower loses, by its network or by its slot") {
  HostTopology host;
  host.nics = {NicAt("x8", Under(0, 1)), NicAt("x16", Under(0, 1))};
  host.nics[0].pci_bytes_per_second = 28e9;
  host.nics[1].pci_bytes_per_second = 63e9;
  const auto placed = Place(host, {{"gpu0", Under(0, 1)}});
  CHECK(Rails(placed[0]) == std::vector{1});
  CHECK(Says(placed[0], "not x8 (slower)"));
  // Near in a narrow slot still beats far in a wide one.
  host.nics[1].locality = Under(1, 2);
  CHECK(Rails(Place(host, {{"gpu0", Under(0, 1)}})[0]) == std::vector{0});
}

TEST_CASE("a NIC of less than half the speed is not worth being near, unless nothing else is up") {
  HostTopology host;
  host.nics = {NicAt("management", Under(0, 1), kGigabit), NicAt("fast", Under(1, 2))};
  const auto placed = Place(host, {{"gpu0", Under(0, 1)}});
  CHECK(Rails(placed[0]) == std::vector{1});
  CHECK(Says(placed[0], "management (less than half as fast as another)"));
  host.nics[0].network_bytes_per_second = kHalf;
  CHECK(Rails(Place(host, {{"gpu0", Under(0, 1)}})[0]) == std::vector{0});
  host.nics[0].network_bytes_per_second = kGigabit;
  host.nics[1].is_up = false;
  CHECK(Rails(Place(host, {{"gpu0", Under(0, 1)}})[0]) == std::vector{0});
}

TEST_CASE("loopback and virtual interfaces only where there is nothing else") {
  HostTopology host;
  host.nics = {Loopback()};
  CHECK(Rails(Place(host, {{"cpu0", {.numa_node = 0}}})[0]) == std::vector{0});
  host.nics.push_back(NicAt("docker0", {}, 0));
  host.nics.back().is_virtual = true;
  CHECK(Rails(Place(host, {{"cpu0", {.numa_node = 0}}})[0]) == std::vector{1});
  host.nics.push_back(NicAt("eth0", {.numa_node = 1}, 0));
  CHECK(Rails(Place(host, {{"cpu0", {.numa_node = 0}}})[0]) == std::vector{2});
  CHECK(Rails(Place(host, {{"cpu0", {.numa_node = 0}}}, {.allowed = {"lo", "docker0"}})[0]) ==
        std::vector{1});
  CHECK(Rails(Place(host, {{"cpu0", {.numa_node = 0}}}, {.allowed = {"lo"}})[0]) == std::vector{0});
}

TEST_CASE("where RDMA cannot be used, a card that has nothing else stands in nobody's way") {
  HostTopology host;
  host.nics = {NicAt("eth0", {}, 0), {.fabric_ports = {"mlx5_0:1"}, .network_bytes_per_second = kFast}};
  host.nics[0].is_virtual = true;
  host.nics[1].is_up = true;
  const std::vector<PlacedDevice> devices = {{"gpu0", Under(0, 1)}};
  for (const std::vector<std::string>& allowed :
       {std::vector<std::string>{}, std::vector<std::string>{"eth0", "mlx5_0:1"}}) {
    CHECK(Place(host, devices, {.allowed = allowed})[0].names == std::vector<std::string>{"mlx5_0:1"});
    const NicPlacement over_tcp = Place(host, devices, {.allowed = allowed, .rdma_devices = kNoRdma})[0];
    CHECK(Rails(over_tcp) == std::vector{0});
    CHECK(over_tcp.names == std::vector<std::string>{"eth0"});
  }
}

TEST_CASE("the port of a device that cannot be opened displaces none that can, and no interface") {
  HostTopology host;
  host.nics = {NicAt("eth0", {}, 0),
               {.fabric_ports = {"mlx5_0:1"}, .locality = Under(1, 2), .is_up = true},
               {.fabric_ports = {"mlx5_3:1"}, .locality = Under(0, 1), .is_up = true}};
  host.nics[0].is_virtual = true;
  host.nics[1].network_bytes_per_second = host.nics[2].network_bytes_per_second = kFast;
  const auto used = [&](const UsableRdmaDevices& rdma_devices, const std::vector<std::string>& allowed = {}) {
    return absl::StrJoin(
        Place(host, {{"gpu0", Under(0, 1)}}, {.allowed = allowed, .rdma_devices = rdma_devices})[0].names,
        ",");
  };
  CHECK(used(std::nullopt) == "mlx5_3:1");
  CHECK(used(Devices{"mlx5_0", "mlx5_3"}) == "mlx5_3:1");
  CHECK(used(Devices{"mlx5_0"}) == "mlx5_0:1");
  CHECK(used(Devices{"mlx5_0"}, {"mlx5_0:1", "mlx5_3:1"}) == "mlx5_0:1");
  CHECK(used(Devices{"mlx5_0"}, {"eth0", "mlx5_3:1"}) == "eth0");
  CHECK(used(Devices{"mlx5_0"}, {"mlx5_3:1"}).empty());
  CHECK(used(Devices{"mlx5_7"}) == "eth0");
  // Nor is a port that nobody allowed used in its place.
  host.nics[2].interfaces = {"ib3"};
  host.nics[2].fabric_ports.push_back("mlx5_4:1");
  CHECK(used(Devices{"mlx5_4"}, {"mlx5_3:1"}) == "ib3");
}

TEST_CASE("only what is allowed is used, by interface or by port") {
  HostTopology host;
  host.nics = {NicAt("near", Under(0, 1)), NicAt("far", Under(1, 2))};
  host.nics[1].fabric_ports = {"mlx5_3:1"};
  const std::vector<PlacedDevice> devices = {{"gpu0", Under(0, 1)}};
  const std::vector<std::string> names = {"far", "mlx5_3", "mlx5_3:1"};
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(Rails(Place(host, devices, {.allowed = {name}})[0]) == std::vector{1});
  }
  host.nics[1].is_up = false;
  const auto none = Place(host, devices, {.allowed = {"far"}});
  CHECK(none[0].nics.empty());
  CHECK(none[0].reason == "gpu0 has no NIC: none that is allowed is up.");
}

TEST_CASE("of a NIC with several names only those that are allowed are used") {
  HostTopology host;
  host.nics = {NicAt("eth0", Under(0, 1)), NicAt("eth1", Under(1, 2))};
  host.nics[0].interfaces = {"eth0", "eth0.100", "eth0.200"};
  host.nics[0].fabric_ports = {"mlx5_0:1", "mlx5_0:2"};
  const auto used = [&](const std::vector<std::string>& allowed, const UsableRdmaDevices& rdma_devices = {}) {
    return absl::StrJoin(
        Place(host, {{"gpu0", Under(0, 1)}}, {.allowed = allowed, .rdma_devices = rdma_devices})[0].names,
        ",");
  };
  CHECK(used({}) == "eth0,eth0.100,eth0.200,mlx5_0:1,mlx5_0:2");
  CHECK(used({}, kNoRdma) == "eth0,eth0.100,eth0.200");
  CHECK(used({"eth0.100"}) == "eth0.100");
  CHECK(used({"eth0"}) == "eth0");
  CHECK(used({"mlx5_0:2"}) == "mlx5_0:2");
  CHECK(used({"mlx5_0"}) == "mlx5_0:1,mlx5_0:2");
  CHECK(used({"mlx5_0:1", "eth0.200", "eth1"}) == "eth0.200,mlx5_0:1");
  CHECK(used({"mlx5_0:1", "eth0.200"}, kNoRdma) == "eth0.200");
  CHECK(used({"mlx5_0:1", "eth1"}, kNoRdma) == "eth1");
  // There is no other way over TCP to where they lead.
  CHECK(used({"mlx5_0:1"}, kNoRdma) == "eth0,eth0.100,eth0.200");
}

TEST_CASE("a name that is not here, and a senseless limit, are refused with what there is") {
  HostTopology host;
  host.nics = {NicAt("eth0", {}), Loopback()};
  const auto unknown = PlaceNics(host, {}, {.allowed = {"eth0", "eth7"}});
  CHECK(unknown.status() ==
        absl::InvalidArgumentError("network_devices is \"eth0,eth7\", and \"eth7\" is no network device "
                                   "here; there are: eth0, lo"));
  CHECK(PlaceNics(host, {}, {.most_rails = 0}).status() ==
        absl::InvalidArgumentError("most_rails is 0, not at least 1"));
}

}  // namespace
}  // namespace medley
