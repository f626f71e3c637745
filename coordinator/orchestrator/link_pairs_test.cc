#include "coordinator/orchestrator/link_pairs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

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

// Nodes of up to four devices of up to two kinds each, some on one machine.
std::vector<ClusterDeviceLocation> RandomDevices(std::mt19937& random) {
  std::vector<ClusterDeviceLocation> devices;
  const int nodes = 1 + static_cast<int>(random() % 9);
  for (int node = 0; node < nodes; ++node) {
    const std::string host = absl::StrCat("host", random() % 3 == 0 ? 0 : node);
    const int count = 1 + static_cast<int>(random() % 4);
    for (int device = 0; device < count; ++device) {
      const bool cores = random() % 2 == 0;
      devices.push_back(DeviceOn(absl::StrCat("n", node), host, absl::StrCat("d", device),
                                 cores ? "cpu" : absl::StrCat("gpu", random() % 2),
                                 cores ? std::vector<int>{device} : std::vector<int>{}));
    }
  }
  return devices;
}

TEST_CASE("every kind is measured once, unless it is known") {
  const auto seed = GENERATE(range(0u, 60u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::vector<ClusterDeviceLocation> devices = RandomDevices(random);
  std::set<std::string> all;
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t j = 0; j < i; ++j) all.insert(LinkKind(devices[i], devices[j]));
  }
  std::vector<std::string> known = {"another"};
  for (const std::string& kind : all) {
    if (random() % 3 == 0) known.push_back(kind);
  }
  std::multiset<std::string> measured;
  for (const DevicePair& pair : PairsToMeasure(devices, known)) {
    CHECK(pair.first < pair.second);
    measured.insert(LinkKind(devices[pair.first], devices[pair.second]));
  }
  for (const std::string& kind : all) {
    CAPTURE(kind);
    const bool is_known = std::count(known.begin(), known.end(), kind) > 0;
    CHECK(measured.count(kind) == (is_known ? 0u : 1u));
  }
  CHECK(measured.size() + known.size() - 1 == all.size());
}

TEST_CASE(
    "rounds hold each pair once, no machine twice, and are fewer than twice the busiest machine's pairs") {
  const auto seed = GENERATE(range(0u, 60u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::vector<ClusterDeviceLocation> devices = RandomDevices(random);
  const std::vector<DevicePair> pairs = PairsToMeasure(devices, {});
  const std::vector<std::vector<DevicePair>> rounds = ProbeRounds(devices, pairs);
  std::set<std::pair<int, int>> seen;
  std::map<std::string, int> degree;
  for (const std::vector<DevicePair>& round : rounds) {
    CHECK_FALSE(round.empty());
    std::set<std::string> busy;
    for (const DevicePair& pair : round) {
      CHECK(seen.emplace(pair.first, pair.second).second);
      const std::set<std::string> its = {MachineOf(devices[pair.first]), MachineOf(devices[pair.second])};
      for (const std::string& machine : its) {
        CHECK(busy.insert(machine).second);
        ++degree[machine];
      }
    }
  }
  CHECK(seen.size() == pairs.size());
  int busiest = 0;
  for (const auto& [machine, count] : degree) busiest = std::max(busiest, count);
  CHECK(static_cast<int>(rounds.size()) <= std::max(0, 2 * busiest - 1));
}

TEST_CASE("eight machines of one kind are measured in seven rounds of four") {
  std::vector<ClusterDeviceLocation> devices;
  for (int i = 0; i < 8; ++i)
    devices.push_back(DeviceOn(absl::StrCat("n", i), absl::StrCat("h", i), "gpu0", "h100"));
  const auto rounds = ProbeRounds(devices, PairsToMeasure(devices, {}));
  CHECK(rounds.size() == 7);
  for (const auto& round : rounds) CHECK(round.size() == 4);
}

}  // namespace
}  // namespace medley
