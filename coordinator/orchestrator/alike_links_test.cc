#include "coordinator/orchestrator/alike_links.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/link_pairs.h"
#include "coordinator/problem/cluster_links.h"

namespace medley {
namespace {

// `nodes` of two devices each of kind "a", the last one's of kind "b".
std::vector<ClusterDeviceLocation> Devices(int nodes) {
  std::vector<ClusterDeviceLocation> devices;
  for (int node = 0; node < nodes; ++node) {
    for (int d = 0; d < 2; ++d) {
      ClusterDeviceLocation device{.node = absl::StrCat("n", node), .host = absl::StrCat("h", node)};
      device.agent_address = absl::StrCat("10.0.0.", node, ":7071");
      device.device.description.name = absl::StrCat("gpu", d);
      device.device.kind = node + 1 == nodes ? "b" : "a";
      devices.push_back(device);
    }
  }
  return devices;
}

template <typename Rate>
LinkTable Measured(const std::vector<ClusterDeviceLocation>& devices, const Rate& bytes_per_second) {
  LinkTable table({});
  for (size_t b = 0; b < devices.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      v1::LinkProfile link;
      link.set_a(FullName(devices[a]));
      link.set_b(FullName(devices[b]));
      link.set_kind(LinkKind(devices[a], devices[b]));
      link.set_link_class(LinkClass(devices[a], devices[b]));
      link.set_latency_seconds(1e-5);
      link.set_bytes_per_second(bytes_per_second(static_cast<int>(a / 2), static_cast<int>(b / 2)));
      link.set_all_reduce_bytes_per_second(link.bytes_per_second());
      table.Add(link);
    }
  }
  return table;
}

Cluster NodesOf(const std::vector<ClusterDeviceLocation>& devices) {
  Cluster cluster;
  for (const ClusterDeviceLocation& device : devices) {
    if (cluster.nodes.empty() || cluster.nodes.back().name != device.node)
      cluster.nodes.push_back({.name = device.node, .host = device.host, .site = device.site});
    cluster.nodes.back().devices.push_back(device.device);
  }
  return cluster;
}

DeviceLinks LinksIn(const Cluster& cluster) {
  std::vector<AllowedDevice> devices;
  for (const ClusterNode& node : cluster.nodes) {
    for (const ClusterDevice& device : node.devices)
      devices.push_back({FullName(node.name, device), &node, &device});
  }
  const absl::StatusOr<DeviceLinks> links = LinksOf(devices, cluster);
  REQUIRE(links.status().ToString() == "OK");
  return *links;
}

double RateOf(const DeviceLinks& links, int a, int b) {
  return links.Between(a, b).transfer.BytesPerSecond();
}

// Measured links scatter by some per cent.
double Scattered(double rate, int a, int b) { return rate * (1 + 0.01 * ((7 * a + 3 * b) % 10)); }

TEST_CASE("links of few devices are all there as they were measured") {
  const std::vector<ClusterDeviceLocation> devices = Devices(8);
  Cluster cluster = NodesOf(devices);
  const auto rate = [](int a, int b) { return a == b ? 1e11 : Scattered(1e9, a, b); };
  REQUIRE(AddLinks(Measured(devices, rate), devices, cluster).ok());
  CHECK(cluster.links.size() == 16 * 15 / 2);
  CHECK(cluster.link_classes.empty());
  CHECK(RateOf(LinksIn(cluster), 0, 4) == Approx(Scattered(1e9, 0, 2)));
}

TEST_CASE("links of many devices that are alike are one class, and those that are not stand alone") {
  const std::vector<ClusterDeviceLocation> devices = Devices(20);
  Cluster cluster = NodesOf(devices);
  // Between the first two nodes something is wrong.
  const auto rate = [](int a, int b) {
    return a == b ? 1e11 : a == 0 && b == 1 ? 1e8 : Scattered(b == 19 ? 5e8 : 1e9, a, b);
  };
  REQUIRE(AddLinks(Measured(devices, rate), devices, cluster).ok());
  CHECK(cluster.links.size() == 4);
  CHECK(cluster.link_classes.size() == 4);  // of kinds a, and a and b; on one machine of either
  const DeviceLinks links = LinksIn(cluster);
  CHECK(links.ends() == 4 + 2);  // of the two nodes each device; all others by kind
  CHECK(RateOf(links, 0, 2) == Approx(1e8));
  CHECK(RateOf(links, 0, 4) == Approx(1e9).epsilon(0.1));
  CHECK(RateOf(links, 6, 8) == Approx(1e9).epsilon(0.1));
  CHECK(RateOf(links, 6, 7) == Approx(1e11));
  CHECK(RateOf(links, 6, 38) == Approx(5e8).epsilon(0.1));
}

TEST_CASE("links of many devices are a class on one machine, another within sites and another between them") {
  std::vector<ClusterDeviceLocation> devices = Devices(20);
  const auto is_north = [](int node) { return node < 10; };
  for (int d = 0; d < 40; ++d) devices[d].site = is_north(d / 2) ? "north" : "south";
  Cluster cluster = NodesOf(devices);
  const auto rate = [&](int a, int b) {
    return a == b ? 1e11 : Scattered(is_north(a) == is_north(b) ? 1e9 : 1e8, a, b);
  };
  REQUIRE(AddLinks(Measured(devices, rate), devices, cluster).ok());
  CHECK(cluster.links.empty());
  std::map<LinkLevel, int> classes;
  for (const ClusterLinkClass& link : cluster.link_classes) ++classes[link.level];
  // On one machine of kind a, and of b; the only node of kind b has no other of it, at its site or elsewhere.
  CHECK(classes ==
        std::map<LinkLevel, int>{{LinkLevel::kNode, 2}, {LinkLevel::kSite, 2}, {LinkLevel::kSites, 2}});
  const DeviceLinks links = LinksIn(cluster);
  CHECK(links.ends() == 3);  // kind a at each site, and kind b
  CHECK(RateOf(links, 0, 1) == Approx(1e11));
  CHECK(RateOf(links, 0, 2) == Approx(1e9).epsilon(0.1));
  CHECK(RateOf(links, 20, 38) == Approx(1e9).epsilon(0.1));
  CHECK(RateOf(links, 0, 20) == Approx(1e8).epsilon(0.1));
  CHECK(RateOf(links, 0, 38) == Approx(1e8).epsilon(0.1));
}

TEST_CASE("links between two sites that are unlike those between others are a class of the two") {
  const std::string middle = GENERATE(as<std::string>(), "south", "");
  CAPTURE(middle);
  const std::vector<std::string> sites = {"north", middle, "west"};
  std::vector<ClusterDeviceLocation> devices = Devices(21);
  for (int d = 0; d < 42; ++d) devices[d].site = sites[d / 14];
  Cluster cluster = NodesOf(devices);
  const auto rate = [&](int a, int b) {  // of nodes, seven at each site
    if (a == b) return 1e11;
    if (a == 0 && b == 7) return 1e7;  // something is wrong between them
    if (a / 7 == b / 7) return Scattered(1e9, a, b);
    return Scattered(b / 7 == 1 ? 1e8 : 2e7, a, b);
  };
  REQUIRE(AddLinks(Measured(devices, rate), devices, cluster).ok());
  CHECK(cluster.links.size() == 4);
  int of_all = 0;
  std::vector<std::set<std::string>> of_two;
  for (const ClusterLinkClass& link : cluster.link_classes) {
    if (link.level != LinkLevel::kSites) continue;
    CHECK(link.a_site.has_value() == link.b_site.has_value());
    if (!link.a_site) ++of_all;
    if (link.a_site) of_two.push_back({*link.a_site, *link.b_site});
  }
  CHECK(of_all == 2);  // of kinds a, and a and b
  CHECK(of_two == std::vector<std::set<std::string>>{{"north", middle}});
  const DeviceLinks links = LinksIn(cluster);
  CHECK(links.ends() == 4 + 4);  // of the two nodes each device; kind a at each site, and kind b
  CHECK(RateOf(links, 0, 14) == Approx(1e7));
  CHECK(RateOf(links, 2, 16) == Approx(1e8).epsilon(0.1));
  CHECK(RateOf(links, 2, 28) == Approx(2e7).epsilon(0.1));
  CHECK(RateOf(links, 16, 28) == Approx(2e7).epsilon(0.1));
  CHECK(RateOf(links, 16, 40) == Approx(2e7).epsilon(0.1));
  CHECK(RateOf(links, 28, 30) == Approx(1e9).epsilon(0.1));
}

TEST_CASE("links found by their places are those found by their names") {
  const std::vector<ClusterDeviceLocation> devices = Devices(20);
  LinkTable all = Measured(devices, [](int a, int b) { return Scattered(1e9, a, b); }), some({});
  for (size_t b = 0; b < devices.size(); ++b) {
    for (size_t a = 0; a < b;
         ++a) {  // enough of them to stand for their classes, but none of kind "b" with "b"
      if ((a + 3 * b) % 5 == 0) some.Add(*all.Between(devices[a], devices[b]));
    }
  }
  std::map<std::pair<std::string, std::string>, double> by_name, by_place;
  some.ForEachAmong(devices, [&](const v1::LinkProfile& link) {
    by_name[{link.a(), link.b()}] = link.bytes_per_second();
    return true;
  });
  some.ForEachPlaceAmong(devices, [&](int first, int second, const v1::LinkProfile& link) {
    by_place[{FullName(devices[first]), FullName(devices[second])}] = link.bytes_per_second();
    return true;
  });
  CHECK(by_name.size() > 100);
  CHECK(by_name == by_place);
}

TEST_CASE("a link that cannot be is refused with its ends") {
  const std::vector<ClusterDeviceLocation> devices = Devices(20);
  Cluster cluster = NodesOf(devices);
  LinkTable table({});
  v1::LinkProfile link;
  link.set_kind(LinkKind(devices[0], devices[2]));
  link.set_bytes_per_second(1e9);
  for (const double bytes : {2e6, 1e6}) {  // must ascend
    v1::LinkPoint& point = *link.add_transfer();
    point.set_bytes(bytes);
    point.set_seconds(bytes / 1e9);
  }
  table.Add(link);
  const absl::Status added = AddLinks(table, devices, cluster);
  CHECK_FALSE(added.ok());
  CHECK_THAT(std::string(added.message()), Catch::Contains("the link between n0/gpu0 and n1/gpu0"));
}

}  // namespace
}  // namespace medley
