#include "coordinator/orchestrator/link_pairs.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

ClusterDeviceLocation DeviceOn(const std::string& node, const std::string& host, const std::string& name,
                               const std::string& kind, std::vector<int> cores = {}) {
  ClusterDeviceLocation location{.node = node, .host = host};
  location.device.description.name = name;
  location.device.description.cores = std::move(cores);
  location.device.kind = kind;
  return location;
}

TEST_CASE(
    "between two machines the nodes and the kinds at both ends make the kind, whichever end is named first") {
  const auto a0 = DeviceOn("a", "x", "cpu0", "avx2", {0}), a1 = DeviceOn("a", "x", "cpu1", "avx2", {1});
  const auto b0 = DeviceOn("b", "y", "cpu0", "avx2", {0}), b1 = DeviceOn("b", "y", "gpu0", "h100");
  const auto c0 = DeviceOn("c", "y", "cpu0", "avx2", {0});
  CHECK(LinkKind(a0, b0) == "a - b: avx2, avx2");
  CHECK(LinkKind(a0, b0) == LinkKind(b0, a1));
  CHECK(LinkKind(a0, b1) != LinkKind(a0, b0));  // another kind of device
  // Another agent of the same machine: its interfaces are its own.
  CHECK(LinkKind(a0, c0) != LinkKind(a0, b0));
  CHECK(LinkKind(a0, b1) == LinkKind(b1, a1));
}

TEST_CASE("kinds stay with their nodes: avx2 here and h100 there is not h100 here and avx2 there") {
  CHECK(LinkKind(DeviceOn("a", "x", "d", "avx2"), DeviceOn("b", "y", "d", "h100")) !=
        LinkKind(DeviceOn("a", "x", "d", "h100"), DeviceOn("b", "y", "d", "avx2")));
}

TEST_CASE("on one machine every pair with cores is like no other; devices without cores are alike by kind") {
  const auto cpu0 = DeviceOn("a", "x", "cpu0", "avx2", {0}), cpu1 = DeviceOn("a", "x", "cpu1", "avx2", {1});
  const auto cpu2 = DeviceOn("a", "x", "cpu2", "avx2", {2});
  const auto gpu0 = DeviceOn("a", "x", "gpu0", "h100"), gpu1 = DeviceOn("a", "x", "gpu1", "h100");
  const auto gpu2 = DeviceOn("a", "x", "gpu2", "h100");
  CHECK(LinkKind(cpu0, cpu1) == "a/cpu0 - a/cpu1: avx2, avx2");
  CHECK(LinkKind(cpu0, cpu1) != LinkKind(cpu0, cpu2));
  CHECK(LinkKind(cpu0, gpu0) != LinkKind(cpu0, gpu1));
  CHECK(LinkKind(gpu0, gpu1) == LinkKind(gpu2, gpu0));
  // Without a host's name a node is a machine of its own.
  CHECK(LinkKind(DeviceOn("a", "", "cpu0", "avx2", {0}), DeviceOn("b", "", "cpu0", "avx2", {0})) ==
        "a - b: avx2, avx2");
}

TEST_CASE("a device that becomes another under its name has other links") {
  const auto other = DeviceOn("b", "y", "cpu0", "avx2", {0});
  CHECK(LinkKind(DeviceOn("a", "y", "cpu0", "avx2", {0}), other) !=
        LinkKind(DeviceOn("a", "y", "cpu0", "amx", {0}), other));
}

TEST_CASE(
    "links of devices of the same kinds in the same networks are of one class, whatever their nodes are "
    "called") {
  auto a = DeviceOn("a", "x", "gpu0", "h100"), b = DeviceOn("b", "y", "gpu0", "h100");
  auto c = DeviceOn("c", "z", "gpu0", "h100"), other = DeviceOn("d", "w", "gpu0", "a100");
  a.agent_address = "10.1.2.3:1", b.agent_address = "10.1.2.4:1", c.agent_address = "10.1.2.99:7";
  other.agent_address = "10.1.2.5:1";
  CHECK(LinkClass(a, b) == "between machines: 10.1.2.0/24 h100 - 10.1.2.0/24 h100");
  CHECK(LinkClass(a, b) == LinkClass(c, a));
  CHECK(LinkClass(a, other) == LinkClass(other, b));
  CHECK(LinkClass(a, other) != LinkClass(a, b));
  c.agent_address = "10.1.3.99:7";
  CHECK(LinkClass(a, c) == LinkClass(c, b));
  CHECK(LinkClass(a, c) != LinkClass(a, b));
  c.agent_address = "10.1.2.99:7";
  a.site = b.site = "north", c.site = "south";
  CHECK(LinkClass(a, b) == "between machines: 10.1.2.0/24 at north h100 - 10.1.2.0/24 at north h100");
  b.rack = "r1";
  CHECK(LinkClass(a, b) == "between racks: 10.1.2.0/24 at north h100 - 10.1.2.0/24 at north h100");
  CHECK(EndOfClass(a) != EndOfClass(b));
  a.rack = "r2";
  CHECK(LinkClass(a, b) == "between racks: 10.1.2.0/24 at north h100 - 10.1.2.0/24 at north h100");
  // Inside whichever rack; what was measured while racks had no names is of neither class.
  b.rack = "r2";
  CHECK(LinkClass(a, b) == "inside a rack: 10.1.2.0/24 at north h100 - 10.1.2.0/24 at north h100");
  const std::string inside = LinkClass(a, b);
  a.rack = b.rack = "r1";
  CHECK(LinkClass(a, b) == inside);
  c.rack = "r1";  // of another site
  CHECK(LinkClass(a, c) == "between machines: 10.1.2.0/24 at north h100 - 10.1.2.0/24 at south h100");
  a.rack = b.rack = c.rack = "";
  CHECK(LinkClass(a, b) == "between machines: 10.1.2.0/24 at north h100 - 10.1.2.0/24 at north h100");
  CHECK(LinkClass(a, c) == LinkClass(c, b));
  CHECK(LinkClass(a, c) != LinkClass(a, b));
}

TEST_CASE("inside machines, links of the same kinds and the same cores are of one class") {
  const auto on = [](const std::string& node, std::vector<int> cores) {
    return DeviceOn(node, node, "cpu", "avx2", std::move(cores));
  };
  CHECK(LinkClass(on("a", {0, 1}), on("a", {2, 3})) ==
        "inside a machine: avx2 on cores 0,1 - avx2 on cores 2,3");
  CHECK(LinkClass(on("a", {0}), on("a", {2})) == LinkClass(on("b", {2}), on("b", {0})));
  CHECK(LinkClass(on("a", {0}), on("a", {2})) != LinkClass(on("b", {0}), on("b", {1})));
  CHECK(LinkClass(DeviceOn("a", "x", "gpu0", "h100"), DeviceOn("a", "x", "gpu1", "h100")) ==
        LinkClass(DeviceOn("b", "y", "gpu5", "h100"), DeviceOn("b", "y", "gpu2", "h100")));
  CHECK(LinkClass(on("a", {0}), on("a", {2})) != LinkClass(on("a", {0}), on("b", {2})));
}

TEST_CASE("a node's network is what its agent's address says") {
  CHECK(NetworkOf("192.168.7.21:7071") == "192.168.7.0/24");
  CHECK(NetworkOf("[fd00:1:2:3:4::5]:7071") == "fd00000100020003/64");
  CHECK(NetworkOf("[fd00:1:2:3::]:1") == NetworkOf("[fd00:1:2:3:ffff::1]:2"));
  CHECK(NetworkOf("gpu7.rack3.example.org:7071") == "rack3.example.org");
  CHECK(NetworkOf("a:1").empty());
  CHECK(NetworkOf("[no address]:1").empty());
  CHECK(NetworkOf("").empty());
}

TEST_CASE("no more than so many probes are made at a time") {
  std::vector<ClusterDeviceLocation> devices;
  std::vector<DevicePair> pairs;
  for (int i = 0; i < 200; i += 2) {
    for (int j : {i, i + 1}) devices.push_back(DeviceOn(absl::StrCat("n", j), "", "gpu0", "h100"));
    pairs.push_back({i, i + 1});
  }
  const auto rounds = ProbeRounds(devices, pairs);
  REQUIRE(rounds.size() == 4);
  for (const auto& round : rounds) CHECK(round.size() <= kMostProbesTogether);
}

}  // namespace
}  // namespace medley
