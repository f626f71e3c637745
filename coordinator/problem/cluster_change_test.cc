#include "coordinator/problem/cluster_change.h"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/problem/alike_nodes.h"
#include "coordinator/problem/cluster_links.h"
#include "coordinator/problem/planning_problem.h"

namespace medley {
namespace {

LinkCost Rate(double bytes_per_second, double latency_seconds = 0) {
  return {LinkModel::Line(latency_seconds, bytes_per_second),
          LinkModel::Line(latency_seconds, bytes_per_second)};
}

// Nodes "a0", "a1" and "z", joined pair by pair, each at a rate of its own, "a0" and "a1" in the north.
Cluster Measured() {
  Cluster cluster = AlikeNodes(2);
  cluster.default_link.reset();
  cluster.links = {{"a0/cpu0", "a1/cpu0", Rate(1e9, 1e-5), 1e9, 7},
                   {"a0/cpu0", "z/cpu0", Rate(2e9, 2e-5), 2e9, 8},
                   {"z/cpu0", "a1/cpu0", Rate(3e9, 3e-5), 3e9, 9}};
  cluster.nodes[0].site = cluster.nodes[1].site = "north";
  cluster.nodes[0].devices[0].price_per_hour = 2;
  return cluster;
}

// Of the link between two devices.
double RateOf(const Cluster& cluster, const std::string& a, const std::string& b) {
  const absl::StatusOr<PlanningProblem> problem =
      MakeProblem(SmallJob(), {.micro_batch_sizes = {1}}, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  int first = -1, second = -1;
  for (int d = 0; d < static_cast<int>(problem->devices.size()); ++d) {
    if (problem->devices[d].name == a) first = d;
    if (problem->devices[d].name == b) second = d;
  }
  REQUIRE(first >= 0);
  REQUIRE(second >= 0);
  return problem->links.Between(first, second).transfer.BytesPerSecond();
}

TEST_CASE("devices that are added are like others of their kind, and are joined as those are") {
  Cluster cluster = Measured();
  REQUIRE(AddDevices({.kind = "alike", .count = 2}, cluster).ToString() == "OK");
  REQUIRE(cluster.nodes.size() == 4);
  const ClusterNode& added = cluster.nodes.back();
  CHECK(added.name == "added-0");
  CHECK(added.site == "north");
  REQUIRE(added.devices.size() == 2);
  CHECK(added.devices[1].description.name == "cpu1");
  CHECK(added.devices[1].price_per_hour == 2);
  CHECK(added.devices[1].description.memory_limit == cluster.nodes[0].devices[0].description.memory_limit);
  // Nothing says what joins two of a node: it is as the slowest between machines.
  CHECK(RateOf(cluster, "added-0/cpu0", "added-0/cpu1") == Approx(1e9));
  CHECK(RateOf(cluster, "added-0/cpu1", "z/cpu0") == Approx(2e9));
  CHECK(RateOf(cluster, "added-0/cpu1", "a1/cpu0") == Approx(1e9));
  REQUIRE(AddDevices({.kind = "other", .node = "new", .price_per_hour = 3}, cluster).ToString() == "OK");
  CHECK(cluster.nodes.back().devices[0].price_per_hour == 3);
  CHECK(RateOf(cluster, "new/cpu0", "a1/cpu0") == Approx(3e9));
  Cluster with_default = Measured();
  with_default.default_link = Rate(5e9);
  REQUIRE(AddDevices({.kind = "alike", .count = 2}, with_default).ToString() == "OK");
  CHECK(RateOf(with_default, "added-0/cpu0", "added-0/cpu1") == Approx(5e9));
}

TEST_CASE(
    "links of added devices that nothing tells are as the slowest between machines, or a slow Ethernet's") {
  Cluster cluster = Measured();
  cluster.profiles.push_back(cluster.profiles[0]);
  cluster.profiles.back().device_kind = "L4";
  const AddedDevices added = {
      .kind = "L4",
      .count = 2,
      .like = ClusterDevice{.description = {.name = "gpu", .memory_limit = GiB(24)}, .kind = "L4"},
      .link_of_node = Rate(0.5e9)};
  Cluster alone = cluster;
  REQUIRE(AddDevices(added, cluster).ToString() == "OK");
  CHECK(RateOf(cluster, "added-0/gpu0", "z/cpu0") == Approx(1e9));
  CHECK(RateOf(cluster, "added-0/gpu0", "added-0/gpu1") == Approx(0.5e9));
  CHECK(RateOf(cluster, "a0/cpu0", "z/cpu0") == Approx(2e9));
  // What is said of them goes before it.
  REQUIRE(SetLink("L4", "other", 7e9, std::nullopt, cluster).ToString() == "OK");
  CHECK(RateOf(cluster, "added-0/gpu0", "z/cpu0") == Approx(7e9));
  CHECK(RateOf(cluster, "added-0/gpu0", "a0/cpu0") == Approx(1e9));
  REQUIRE(RemoveDevices("a0", alone).ToString() == "OK");
  REQUIRE(RemoveDevices("a1", alone).ToString() == "OK");
  REQUIRE(AddDevices(added, alone).ToString() == "OK");
  CHECK(RateOf(alone, "added-0/gpu0", "z/cpu0") == Approx(1e8));
}

TEST_CASE("devices of a kind that is not there are as they are described") {
  Cluster cluster = Measured();
  const AddedDevices added = {.kind = "L4", .count = 2};
  const absl::Status unknown = AddDevices(added, cluster);
  CHECK(absl::IsInvalidArgument(unknown));
  CHECK(unknown.message() == "kind: no device is a \"L4\"; there are alike, other");
  AddedDevices described = added;
  described.like = ClusterDevice{.description = {.name = "gpu", .memory_limit = GiB(24)}, .kind = "L4"};
  described.link_of_node = Rate(6e9);
  REQUIRE(AddDevices(described, cluster).ToString() == "OK");
  CHECK(cluster.nodes.back().devices[0].description.memory_limit == GiB(24));
  CHECK(cluster.link_classes.back().level == LinkLevel::kNode);
}

TEST_CASE("devices of a kind that is not there come to the site that is named, or else to the first node's") {
  Cluster cluster = Measured();
  for (ClusterNode& node : cluster.nodes) node.site = node.name == "z" ? "south" : "north";
  cluster.nodes.front().rack = "1";
  cluster.profiles.push_back(cluster.profiles.front());
  cluster.profiles.back().device_kind = "L4";
  cluster.links.clear();
  cluster.link_classes = {
      {.level = LinkLevel::kSite, .a_kind = "alike", .b_kind = "alike", .cost = Rate(5e9)},
      {.level = LinkLevel::kSites, .cost = Rate(1e8)}};
  AddedDevices added = {
      .kind = "L4",
      .like = ClusterDevice{.description = {.name = "gpu", .memory_limit = GiB(24)}, .kind = "L4"}};
  Cluster like_first = cluster;
  REQUIRE(AddDevices(added, like_first).ToString() == "OK");
  CHECK(like_first.nodes.back().site == "north");
  CHECK(like_first.nodes.back().rack == "1");
  CHECK(RateOf(like_first, "added-0/gpu0", "a0/cpu0") == Approx(5e9));
  CHECK(RateOf(like_first, "added-0/gpu0", "z/cpu0") == Approx(1e8));
  added.site = "south";
  Cluster there = cluster;
  REQUIRE(AddDevices(added, there).ToString() == "OK");
  CHECK(there.nodes.back().site == "south");
  CHECK(there.nodes.back().rack.empty());
  CHECK(RateOf(there, "added-0/gpu0", "a0/cpu0") == Approx(1e8));
  added.site = "east";
  CHECK(AddDevices(added, there).message() == "site: \"east\"; there are north, south");
  Cluster nowhere = Measured();
  for (ClusterNode& node : nowhere.nodes) node.site.clear();
  CHECK(AddDevices(added, nowhere).message() == "site: \"east\"; no node of the cluster says at which it is");
}

TEST_CASE("devices may be added in the place of those that are removed, and are as those were") {
  const Cluster before = Measured();
  Cluster cluster = before;
  REQUIRE(RemoveDevices("z", cluster).ToString() == "OK");
  CHECK(AddDevices({.kind = "other", .node = "z"}, cluster).message() ==
        "kind: no device is a \"other\"; there are alike");
  REQUIRE(AddDevices({.kind = "other", .node = "z"}, cluster, &before).ToString() == "OK");
  CHECK(RateOf(cluster, "z/cpu0", "a0/cpu0") == Approx(2e9));
  CHECK(RateOf(cluster, "z/cpu0", "a1/cpu0") == Approx(3e9));
  // No link of two such is left.
  REQUIRE(RemoveDevices("a1", cluster).ToString() == "OK");
  REQUIRE(AddDevices({.kind = "alike", .node = "a2"}, cluster, &before).ToString() == "OK");
  CHECK(RateOf(cluster, "a2/cpu0", "a0/cpu0") == Approx(1e9));
  CHECK(AddDevices({.kind = "new"}, cluster, &before).message() ==
        "kind: no device is a \"new\"; there are alike, other");
}

TEST_CASE("what is removed is gone with its links") {
  Cluster cluster = Measured();
  REQUIRE(RemoveDevices("a1", cluster).ToString() == "OK");
  CHECK(cluster.nodes.size() == 2);
  CHECK(cluster.links.size() == 1);
  REQUIRE(RemoveDevices("a0/cpu0", cluster).ToString() == "OK");
  CHECK(cluster.nodes.size() == 1);
  const Cluster before = cluster;
  CHECK(RemoveDevices("y", cluster).message() ==
        "no node or device is \"y\"; there are the kinds other; the nodes z");
  CHECK(cluster == before);
  cluster.nodes.push_back(cluster.nodes[0]);
  cluster.nodes.push_back(cluster.nodes[0]);
  cluster.nodes[1].name = "group-0";
  cluster.nodes[2].name = "group-12";
  REQUIRE(RemoveDevices("group", cluster).ToString() == "OK");
  CHECK(cluster == before);
}

TEST_CASE(
    "a link is changed between devices, nodes, kinds and sites, and keeps its latency where none is given") {
  const Cluster today = Measured();
  const auto check = [&](const std::string& a, const std::string& b, double a0_a1, double a0_z, double a1_z) {
    Cluster cluster = today;
    CAPTURE(a, b);
    REQUIRE(SetLink(a, b, 7e9, std::nullopt, cluster).ToString() == "OK");
    CHECK(RateOf(cluster, "a0/cpu0", "a1/cpu0") == Approx(a0_a1));
    CHECK(RateOf(cluster, "a0/cpu0", "z/cpu0") == Approx(a0_z));
    CHECK(RateOf(cluster, "a1/cpu0", "z/cpu0") == Approx(a1_z));
  };
  check("a0/cpu0", "a1/cpu0", 7e9, 2e9, 3e9);
  check("z", "a1", 1e9, 2e9, 7e9);
  check("alike", "other", 1e9, 7e9, 7e9);
  check("alike", "alike", 7e9, 2e9, 3e9);
  check("alike", "z", 1e9, 7e9, 7e9);
  Cluster cluster = today;
  cluster.nodes[2].site = "south";
  REQUIRE(SetLink("south", "north", 7e9, 1e-3, cluster).ToString() == "OK");
  CHECK(RateOf(cluster, "a0/cpu0", "z/cpu0") == Approx(7e9));
  CHECK(RateOf(cluster, "a0/cpu0", "a1/cpu0") == Approx(1e9));
  CHECK(cluster.link_classes.back().cost.transfer.LatencySeconds() == Approx(1e-3));

  Cluster kept = today;
  REQUIRE(SetLink("a0", "z", 7e9, std::nullopt, kept).ToString() == "OK");
  CHECK(kept.links.back().cost.transfer.LatencySeconds() == Approx(2e-5));
  CHECK(SetLink("a0", "y", 7e9, 0, kept).message() ==
        "no device, node, kind or site is \"y\"; there are the kinds alike, other; the nodes a0, a1, z; the "
        "sites north");
  CHECK(SetLink("z", "z", 7e9, 0, kept).message() == "\"z\" and \"z\" have no two devices that a link joins");
}

TEST_CASE("measured sums of a link change with its rate, and are not those of links that nothing tells") {
  Cluster cluster = Measured();
  const std::vector<AllReduceTimes> measured = {{2, {{{1e6, 1e-3}, {2e6, 4e-3}}}}};
  for (ClusterLink& link : cluster.links) link.cost.all_reduce = measured;
  const Cluster today = cluster;
  REQUIRE(SetLink("a0", "z", 8e9, std::nullopt, cluster).ToString() == "OK");
  const auto is_a_quarter = [](const LinkCost& cost) {
    REQUIRE(cost.all_reduce.size() == 1);
    CHECK(cost.all_reduce[0].members == 2);
    REQUIRE(cost.all_reduce[0].seconds.points.size() == 2);
    CHECK(cost.all_reduce[0].seconds.points[0].bytes == 1e6);
    CHECK(cost.all_reduce[0].seconds.points[0].seconds == Approx(0.25e-3));
    CHECK(cost.all_reduce[0].seconds.points[1].seconds == Approx(1e-3));
  };
  is_a_quarter(cluster.links.back().cost);
  CHECK(cluster.links.front().cost.all_reduce == measured);
  // With a latency, too, and between kinds.
  cluster = today;
  REQUIRE(SetLink("alike", "alike", 4e9, 1e-3, cluster).ToString() == "OK");
  is_a_quarter(cluster.link_classes.back().cost);
  // There was none, or one that takes no time.
  for (const double rate : {0.0, std::numeric_limits<double>::infinity()}) {
    cluster = today;
    cluster.links.erase(cluster.links.begin());
    if (rate > 0) {
      cluster.links.push_back({"a0/cpu0", "a1/cpu0", Rate(rate), rate, 7});
      cluster.links.back().cost.all_reduce = measured;
    }
    REQUIRE(SetLink("a0", "a1", 4e9, 1e-3, cluster).ToString() == "OK");
    CHECK(cluster.links.back().cost.all_reduce.empty());
  }

  cluster = today;
  REQUIRE(AddDevices({.kind = "alike", .count = 2}, cluster).ToString() == "OK");
  REQUIRE(cluster.link_classes.size() == 3);
  for (const ClusterLinkClass& supposed : cluster.link_classes) {
    CHECK(supposed.cost.transfer == today.links.front().cost.transfer);
    CHECK(supposed.cost.all_reduce.empty());
  }
}

TEST_CASE("the way between two of three sites is changed without those to the third") {
  Cluster cluster = Measured();
  cluster.nodes[1].site = "west";
  cluster.nodes[2].site = "south";
  Cluster of_classes = cluster;
  of_classes.links.clear();
  of_classes.link_classes = {{.level = LinkLevel::kSites, .cost = Rate(1e9, 1e-2)}};
  for (Cluster* const changed : {&cluster, &of_classes}) {
    const double a0_a1 = RateOf(*changed, "a0/cpu0", "a1/cpu0"), a1_z = RateOf(*changed, "a1/cpu0", "z/cpu0");
    REQUIRE(SetLink("south", "north", 7e9, std::nullopt, *changed).ToString() == "OK");
    CHECK(RateOf(*changed, "a0/cpu0", "z/cpu0") == Approx(7e9));
    CHECK(RateOf(*changed, "a0/cpu0", "a1/cpu0") == Approx(a0_a1));
    CHECK(RateOf(*changed, "a1/cpu0", "z/cpu0") == Approx(a1_z));
    REQUIRE(SetLink("west", "south", 5e9, std::nullopt, *changed).ToString() == "OK");
    CHECK(RateOf(*changed, "a1/cpu0", "z/cpu0") == Approx(5e9));
    CHECK(RateOf(*changed, "a0/cpu0", "z/cpu0") == Approx(7e9));
  }
  CHECK(of_classes.link_classes.back().cost.transfer.LatencySeconds() == Approx(1e-2));
  CHECK(of_classes.links.empty());
  of_classes.nodes.push_back(of_classes.nodes[0]);
  of_classes.nodes.back().name = "a2";
  CHECK(
      SetLink("north", "north", 7e9, std::nullopt, of_classes).message() ==
      "site \"north\": there are others, too, and classes of links within a site tell none apart; name kinds "
      "or nodes");
}

TEST_CASE("links of two kinds are changed between racks, too") {
  Cluster cluster = Measured();
  cluster.links.clear();
  cluster.nodes[1].rack = "r1";
  cluster.link_classes = {{.level = LinkLevel::kSite, .cost = Rate(1e9)},
                          {.level = LinkLevel::kRacks, .cost = Rate(1e8)},
                          {.level = LinkLevel::kSites, .cost = Rate(1e7)}};
  CHECK(RateOf(cluster, "a0/cpu0", "a1/cpu0") == Approx(1e8));
  REQUIRE(SetLink("alike", "alike", 5e8, 0, cluster).ToString() == "OK");
  CHECK(RateOf(cluster, "a0/cpu0", "a1/cpu0") == Approx(5e8));
  REQUIRE(AddDevices({.kind = "alike", .node = "added"}, cluster).ToString() == "OK");
  CHECK(cluster.nodes.back().rack == cluster.nodes[0].rack);
}

TEST_CASE("a site whose only node is replaced keeps its ways") {
  Cluster before = Measured();
  before.links.clear();
  before.nodes[1].site = "west";
  before.nodes[2].site = "south";
  before.link_classes = {
      {.level = LinkLevel::kSites, .cost = Rate(1e9)},
      {.level = LinkLevel::kSites, .cost = Rate(2e9), .a_site = "south", .b_site = "north"}};
  Cluster cluster = before;
  REQUIRE(RemoveDevices("z", cluster).ToString() == "OK");
  REQUIRE(AddDevices({.kind = "other", .node = "y"}, cluster, &before).ToString() == "OK");
  CHECK(cluster.nodes.back().site == "south");
  CHECK(RateOf(cluster, "a0/cpu0", "y/cpu0") == Approx(2e9));
  CHECK(RateOf(cluster, "a1/cpu0", "y/cpu0") == Approx(1e9));
}

}  // namespace
}  // namespace medley
