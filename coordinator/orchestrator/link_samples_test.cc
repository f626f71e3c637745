#include "coordinator/orchestrator/link_samples.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
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

// One device on each of `count` machines.
std::vector<ClusterDeviceLocation> Machines(int count, const std::string& network = "10.0.0.",
                                            const std::string& kind = "h100") {
  std::vector<ClusterDeviceLocation> devices;
  for (int i = 0; i < count; ++i) {
    const std::string name = absl::StrCat(kind, "-", network, i);
    devices.push_back(DeviceOn(name, name, "gpu0", kind));
    devices.back().agent_address = absl::StrCat(network, i % 250, ":7071");
  }
  return devices;
}

using Speed = std::function<double(int a, int b)>;  // of places in the list of devices

// Measures until nothing is missing. How many links that took.
int MeasureAll(const std::vector<ClusterDeviceLocation>& devices, const Speed& speed, LinkTable& table) {
  int measured = 0;
  while (true) {
    const std::vector<DevicePair> pairs = PairsToMeasure(devices, table);
    if (pairs.empty()) return measured;
    for (const DevicePair& pair : pairs) {
      const ClusterDeviceLocation &a = devices[pair.first], &b = devices[pair.second];
      v1::LinkProfile link;
      link.set_a(FullName(a));
      link.set_b(FullName(b));
      link.set_kind(LinkKind(a, b));
      link.set_link_class(LinkClass(a, b));
      link.set_bytes_per_second(speed(pair.first, pair.second));
      link.set_latency_seconds(1e-5);
      table.Add(link);
      ++measured;
    }
    REQUIRE(measured <= 100'000);
  }
}

// How many pairs are taken to have links of another speed.
int CountWrong(const LinkTable& table, const std::vector<ClusterDeviceLocation>& devices,
               const Speed& speed) {
  int wrong = 0;
  table.ForEachPlaceAmong(devices, [&](int first, int second, const v1::LinkProfile& link) {
    if (link.bytes_per_second() != speed(first, second)) ++wrong;
    return true;
  });
  return wrong;
}

// Nodes of up to four devices of up to two kinds each, some on one machine, each in a network of its own: no class has
// many kinds.
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
      devices.back().agent_address = absl::StrCat("10.0.", node, ".1:1");
    }
  }
  return devices;
}

TEST_CASE("of classes of few kinds every kind is measured once, unless it is known") {
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
  LinkTable table({});
  for (const std::string& kind : known) {
    v1::LinkProfile link;
    link.set_kind(kind);
    table.Add(link);
  }
  std::multiset<std::string> measured;
  for (const DevicePair& pair : PairsToMeasure(devices, table)) {
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
  const std::vector<DevicePair> pairs = PairsToMeasure(devices, LinkTable({}));
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
  const auto rounds = ProbeRounds(devices, PairsToMeasure(devices, LinkTable({})));
  CHECK(rounds.size() == 7);
  for (const auto& round : rounds) CHECK(round.size() == 4);
}

TEST_CASE("of links that are alike six are measured at first, between twelve nodes, however many there are") {
  for (const int count : {12, 64, 1000}) {
    CAPTURE(count);
    const auto devices = Machines(count);
    const std::vector<DevicePair> first = PairsToMeasure(devices, LinkTable({}));
    CHECK(first.size() == LinkTable::kFewestSamples);
    std::set<int> ends;
    for (const DevicePair& pair : first) ends.insert({pair.first, pair.second});
    CHECK(ends.size() == 2 * LinkTable::kFewestSamples);
    LinkTable table({});
    CHECK(MeasureAll(
              devices, [](int, int) { return 1e9; }, table) == LinkTable::kFewestSamples);
    CHECK(PairsToMeasure(devices, table).empty());
  }
}

TEST_CASE("measuring takes time by pairs of classes, and every pair has a link afterwards") {
  std::vector<ClusterDeviceLocation> devices;
  for (const char* network : {"10.0.0.", "10.0.1."}) {
    for (const char* kind : {"h100", "a100"}) {
      for (ClusterDeviceLocation& device : Machines(40, network, kind)) devices.push_back(std::move(device));
    }
  }
  LinkTable table({});
  const auto speed = [&](int a, int b) { return a / 80 == b / 80 ? 1e10 : 1e8; };  // two sites
  CHECK(MeasureAll(devices, speed, table) == 10 * LinkTable::kFewestSamples);  // ten pairs of four classes
  int wrong = 0;
  for (int a = 0; a < 160; ++a) {
    for (int b = 0; b < a; ++b) {
      const std::optional<v1::LinkProfile> link = table.Between(devices[a], devices[b]);
      if (!link || link->bytes_per_second() != speed(a, b)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("links within sites and between them are measured apart, though all are in one network") {
  std::vector<ClusterDeviceLocation> devices = Machines(80);
  for (int d = 0; d < 80; ++d) devices[d].site = d < 40 ? "north" : "south";
  LinkTable table({});
  const auto speed = [](int a, int b) { return a / 40 == b / 40 ? 1e10 : 1e8; };
  CHECK(MeasureAll(devices, speed, table) == 3 * LinkTable::kFewestSamples);
  CHECK(CountWrong(table, devices, speed) == 0);
}

// In racks of so many neighbours.
std::vector<ClusterDeviceLocation> InRacks(std::vector<ClusterDeviceLocation> devices, int in_rack) {
  for (size_t d = 0; d < devices.size(); ++d) devices[d].rack = absl::StrCat("r", d / in_rack);
  return devices;
}

TEST_CASE("samples are spread over racks, and over their nodes, however many there are") {
  const auto [count, in_rack] = GENERATE(std::pair(128, 8), std::pair(64, 16), std::pair(2000, 20));
  CAPTURE(count, in_rack);
  const size_t racks = count / in_rack;
  const std::vector<ClusterDeviceLocation> devices = InRacks(Machines(count), in_rack);
  std::map<bool, std::set<std::string>> sampled;  // racks, by whether a link is inside one
  std::map<bool, std::set<int>> ends;
  const std::vector<DevicePair> pairs = PairsToMeasure(devices, LinkTable({}));
  for (const DevicePair& pair : pairs) {
    const bool inside = devices[pair.first].rack == devices[pair.second].rack;
    for (const int d : {pair.first, pair.second}) {
      sampled[inside].insert(devices[d].rack);
      ends[inside].insert(d);
    }
  }
  CHECK(pairs.size() == 2 * LinkTable::kFewestSamples);
  CHECK(sampled[true].size() == std::min<size_t>(racks, LinkTable::kFewestSamples));
  CHECK(sampled[false].size() == std::min<size_t>(racks, 2 * LinkTable::kFewestSamples));
  for (const bool inside : {true, false}) CHECK(ends[inside].size() == 2 * LinkTable::kFewestSamples);
}

TEST_CASE(
    "of racks of two kinds at two sites each class is measured, and one slow rack slows no others down") {
  std::vector<ClusterDeviceLocation> devices = InRacks(Machines(160), 8);
  for (int d = 0; d < 160; ++d) {
    devices[d].site = d < 80 ? "north" : "south";
    devices[d].device.kind = d % 2 == 0 ? "h100" : "a100";
  }
  const Speed alike = [](int a, int b) { return a / 80 != b / 80 ? 1e8 : a / 8 != b / 8 ? 1e9 : 1e10; };
  LinkTable table({});
  // Three pairs of kinds inside racks and between racks of either site, and two kinds here and there.
  CHECK(MeasureAll(devices, alike, table) == (2 * (3 + 3) + 4) * LinkTable::kFewestSamples);
  CHECK(CountWrong(table, devices, alike) == 0);
  const Speed with_slow = [&](int a, int b) {
    return (a / 8 == 0) != (b / 8 == 0) ? 1e6 : alike(a, b);  // the uplink of the first by name
  };
  LinkTable of_slow({});
  MeasureAll(devices, with_slow, of_slow);
  std::vector<ClusterDeviceLocation> others(devices.begin() + 8, devices.end());
  CHECK(CountWrong(of_slow, others, [&](int a, int b) { return alike(a + 8, b + 8); }) == 0);
}

TEST_CASE("what was measured before racks were named does not stand for links inside them") {
  std::vector<ClusterDeviceLocation> devices = Machines(40);
  LinkTable table({});
  // All of them happened to join what are two racks.
  const int before = MeasureAll(
      devices, [](int, int) { return 1e8; }, table);
  CHECK(before == LinkTable::kFewestSamples);
  for (int d = 0; d < 40; ++d) devices[d].rack = d < 20 ? "r1" : "r2";
  const Speed speed = [](int a, int b) { return a / 20 == b / 20 ? 1e10 : 1e8; };
  CHECK(MeasureAll(devices, speed, table) == 2 * LinkTable::kFewestSamples);
  // Those that were measured themselves aside.
  CHECK(CountWrong(table, devices, speed) <= before);
}

TEST_CASE("what is taken for others says so, with how many were measured; the middle one stands for them") {
  const auto devices = Machines(12);
  LinkTable table({});
  double next = 1e9;
  CHECK(MeasureAll(
            devices, [&](int, int) { return next += 2e7; }, table) == 6);
  int own = 0, taken = 0;
  for (int a = 0; a < 12; ++a) {
    for (int b = 0; b < a; ++b) {
      const std::optional<v1::LinkProfile> link = table.Between(devices[a], devices[b]);
      REQUIRE(link);
      CHECK(link->kind() == LinkKind(devices[a], devices[b]));
      if (link->measured_between().empty()) {
        ++own;
        continue;
      }
      ++taken;
      CHECK(link->bytes_per_second() == 1.06e9);
      CHECK(link->provenance() == "the middle one of 6 links measured of many that should be alike");
      CHECK_THAT(link->measured_between(), Catch::Contains(" - h100-10.0.0."));
    }
  }
  CHECK(own == 6);
  CHECK(taken == 66 - 6);
}

TEST_CASE("while samples disagree more are measured, to a bound; then a slow one stands for the rest") {
  const auto devices = Machines(200);
  LinkTable table({});
  // As if half of the links went through a slow switch that nothing tells.
  int measured = 0;
  CHECK(MeasureAll(
            devices, [&](int, int) { return ++measured % 2 == 0 ? 1e10 : 1e9; }, table) ==
        LinkTable::kMostSamples);
  std::set<double> speeds;
  for (int a = 0; a < 200; ++a) {
    for (int b = 0; b < a; ++b) {
      const std::optional<v1::LinkProfile> link = table.Between(devices[a], devices[b]);
      REQUIRE(link);
      if (!link->measured_between().empty()) speeds.insert(link->bytes_per_second());
    }
  }
  CHECK(speeds == std::set<double>{1e9});
}

TEST_CASE("one slow node among many does not slow the others down") {
  const auto devices = Machines(30);
  LinkTable table({});
  const Speed speed = [](int a, int b) { return a == 7 || b == 7 ? 1e8 : 1e10; };
  CHECK(MeasureAll(devices, speed, table) <= LinkTable::kMostSamples);
  CHECK(table.Between(devices[20], devices[21])->bytes_per_second() == 1e10);
}

TEST_CASE("links of one class over different transports do not agree") {
  LinkTable table({});
  for (int i = 0; i < 6; ++i) {
    v1::LinkProfile link;
    link.set_kind(absl::StrCat(i));
    link.set_link_class("class");
    link.set_bytes_per_second(1e9);
    link.set_transport(i == 0 ? "rdma" : "tcp");
    table.Add(link);
    CHECK((table.SamplesOf("class").stands != nullptr) == (i == 5));
  }
  CHECK_FALSE(table.SamplesOf("class").agree);
  CHECK(table.SamplesOf("class").count == 6);
  CHECK(table.SamplesOf("another").count == 0);
}

TEST_CASE(
    "a few nodes of a large cluster have each of their links measured, until enough are known of their "
    "class") {
  LinkTable table({});
  CHECK(MeasureAll(
            Machines(8), [](int, int) { return 1e9; }, table) == kMeasuredEach);
  CHECK(MeasureAll(
            Machines(20), [](int, int) { return 1e9; }, table) == 0);
  auto others = Machines(20);
  others.erase(others.begin(), others.begin() + 12);
  CHECK(MeasureAll(
            others, [](int, int) { return 1e9; }, table) == 0);
}

}  // namespace
}  // namespace medley
