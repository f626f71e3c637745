#include "runtime/wire/node_groups.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/validate.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

// As an agent has it, on a machine of its own.
v1::Node GpuNode(const std::string& name) {
  v1::Node node;
  node.set_name(name);
  node.set_host("machine of " + name);
  node.set_agent_address(name + ":7071");
  node.set_alive(true);
  node.set_site("north");
  node.set_host_memory_bytes(1u << 30);
  node.set_network_cards(2);
  for (const char* number : {"0", "1"}) {
    v1::Device& device = *node.add_devices();
    device.set_name(absl::StrCat("gpu", number));
    device.set_backend("cuda");
    device.set_variant(number);
    device.set_memory_bytes(1u << 30);
    device.set_kind("A100");
    device.set_computes_bf16(true);
    device.set_price_per_hour(2);
  }
  return node;
}

// 64 nodes that are alike and, in between, three that are not.
v1::ClusterSpec Live() {
  v1::ClusterSpec cluster;
  for (int number = 1; number <= 70; ++number) {
    if (number % 20 == 7) continue;
    const std::string name = absl::StrCat("n", number < 10 ? "00" : "0", number);
    *cluster.add_nodes() = GpuNode(name);
    cluster.mutable_nodes()->rbegin()->set_seconds_since_renewal(number);
  }
  REQUIRE(cluster.nodes_size() == 66);
  cluster.mutable_nodes(4)->mutable_devices(1)->set_variant("3");
  cluster.mutable_nodes(30)->set_site("south");
  *cluster.add_nodes() = GpuNode("odd");
  cluster.mutable_nodes(66)->set_network_cards(1);
  v1::HostSlowdown& slowdown = *cluster.add_slowdowns();
  slowdown.set_host("machine of n070");
  slowdown.set_shape("shape");
  v1::SharedSlowdown& shared = *slowdown.add_devices();
  shared.set_device("n070/gpu0");
  shared.set_device_kind("A100");
  shared.set_factor(1.1);
  v1::LinkProfile& link = *cluster.add_links();
  link.set_a("n001/gpu0");
  link.set_b("odd/gpu1");
  link.set_bytes_per_second(1e9);
  link.set_all_reduce_bytes_per_second(1e9);
  return cluster;
}

TEST_CASE("nodes that are alike are written as one group, and read as the nodes that they are") {
  const v1::ClusterSpec live = Live();
  v1::ClusterSpec grouped = live;
  GroupAlikeNodes(grouped);
  REQUIRE(grouped.node_groups_size() == 1);
  CHECK(grouped.node_groups(0).name() == "n[001-004,006,008-026,028-032,034-046,048-066,068-070]");
  CHECK(grouped.node_groups(0).count() == 64);
  REQUIRE(grouped.nodes_size() == 3);
  CHECK(grouped.nodes(2).name() == "odd");
  CHECK(grouped.slowdowns(0).host() == "n070");
  CHECK(ValidateMessage(grouped).ToString() == "OK");

  const std::string text = WriteYaml(grouped);
  CAPTURE(text);
  CHECK(std::count(text.begin(), text.end(), '\n') < 120);
  v1::ClusterSpec read;
  REQUIRE(ReadYaml(text, "cluster", &read).ToString() == "OK");
  absl::StatusOr<Cluster> decoded = DecodeCluster(read), expected = DecodeCluster(live);
  REQUIRE(decoded.status().ToString() == "OK");
  REQUIRE(expected.status().ToString() == "OK");
  for (ClusterNode& node : expected->nodes) {
    if (node.name != "n005" && node.name != "n033" && node.name != "odd") node.host.clear();
  }
  expected->slowdowns[0].host = "n070";
  CHECK(*decoded == *expected);

  GroupAlikeNodes(grouped);
  CHECK(grouped.node_groups_size() == 1);
}

TEST_CASE("nodes that differ, share a host or are not in the order of their names stay by themselves") {
  v1::ClusterSpec cluster;
  for (const char* name : {"a", "b"}) *cluster.add_nodes() = GpuNode(name);
  v1::Node& b = *cluster.mutable_nodes(1);
  v1::ClusterSpec alike = cluster;
  GroupAlikeNodes(alike);
  REQUIRE(alike.node_groups_size() == 1);
  CHECK(alike.node_groups(0).name() == "a,b");
  const std::string what = GENERATE("site", "cards", "host memory", "memory", "kind", "precision", "price",
                                    "variant", "cores", "devices", "one host", "host of a name", "order");
  CAPTURE(what);
  if (what == "site") b.set_site("south");
  if (what == "cards") b.set_network_cards(1);
  if (what == "host memory") b.set_host_memory_bytes(1);
  if (what == "memory") b.mutable_devices(1)->set_memory_bytes(1u << 29);
  if (what == "kind") b.mutable_devices(1)->set_kind("L4");
  if (what == "precision") b.mutable_devices(1)->set_computes_f16(true);
  if (what == "price") b.mutable_devices(1)->set_price_per_hour(3);
  if (what == "variant") b.mutable_devices(1)->set_variant("2");
  if (what == "cores") b.mutable_devices(1)->add_cores(1);
  if (what == "devices") b.mutable_devices()->RemoveLast();
  if (what == "one host") b.set_host("machine of a");
  if (what == "host of a name") b.set_host("a");
  if (what == "order") b.set_name("0");
  GroupAlikeNodes(cluster);
  CHECK(cluster.nodes_size() == 2);
  CHECK(cluster.node_groups_size() == 0);
}

TEST_CASE("a group has devices of its own or some of one device") {
  v1::ClusterSpec cluster;
  v1::NodeGroup& group = *cluster.add_node_groups();
  group.set_name("n");
  group.set_count(2);
  group.mutable_device()->set_name("gpu");
  const auto expanded = [&] {
    const absl::StatusOr<std::vector<v1::Node>> nodes = ExpandNodes(cluster);
    REQUIRE(nodes.status().ToString() == "OK");
    std::vector<std::string> names;
    for (const v1::Node& node : *nodes) {
      for (const v1::Device& device : node.devices())
        names.push_back(absl::StrCat(node.name(), "/", device.name()));
    }
    return names;
  };
  CHECK(expanded() == std::vector<std::string>{"n-0/gpu", "n-1/gpu"});
  group.set_devices_per_node(2);
  CHECK(expanded() == std::vector<std::string>{"n-0/gpu0", "n-0/gpu1", "n-1/gpu0", "n-1/gpu1"});
  group.clear_device();
  group.clear_devices_per_node();
  for (const char* name : {"small", "large"}) group.add_devices()->set_name(name);
  group.set_name("n[8,10]");
  cluster.add_nodes()->set_name("n9");
  cluster.mutable_nodes(0)->add_devices()->set_name("cpu");
  CHECK(expanded() == std::vector<std::string>{"n10/small", "n10/large", "n8/small", "n8/large", "n9/cpu"});
}

TEST_CASE("a group that says what cannot be is refused by field") {
  v1::ClusterSpec cluster;
  cluster.add_nodes()->set_name("n5");
  cluster.add_node_groups()->set_name("other");
  cluster.mutable_node_groups(0)->set_count(1);
  cluster.mutable_node_groups(0)->mutable_device()->set_name("gpu");
  v1::NodeGroup& group = *cluster.add_node_groups() = cluster.node_groups(0);
  const auto refusal = [&](const std::string& name, uint32_t count) {
    group.set_name(name);
    group.set_count(count);
    const absl::Status status = DecodeCluster(cluster).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(refusal("n[1-4]", 3) == "node_groups[1].count: 3, but name lists 4; must be as many");
  CHECK(refusal("n[4-1]", 4) == "node_groups[1].name: \"4-1\" ends before it begins");
  CHECK(refusal("n[1-2],n2", 3) == "node_groups[1].name: \"n2\" is there twice");
  CHECK(refusal("n[1-5]", 5) == "node_groups: \"n5\" is listed, and another node has that name, too");
  CHECK(refusal("n[1-2],other-0", 3) ==
        "node_groups: \"other-0\" is listed, and another node has that name, too");
  CHECK(refusal("a,b c", 2) ==
        "node_groups[1].name: \"b c\" may have letters from a to z and A to Z, digits, \"-\", \"_\" and "
        "\".\" only");
  CHECK(refusal("a,", 2) == "node_groups[1].name: is required, but empty");
  CHECK_THAT(refusal(std::string(128, 'n'), 1), Catch::StartsWith("node_groups[1].name: has 130 bytes"));
  group.add_devices()->set_name("gpu");
  CHECK(refusal("a,b", 2) == "node_groups[1].device: stands beside devices; must be one of both");
  group.clear_device();
  group.set_devices_per_node(2);
  CHECK(refusal("a,b", 2) ==
        "node_groups[1].devices_per_node: stands beside devices; goes with device alone");
  group.clear_devices();
  CHECK(refusal("a,b", 2) == "node_groups[1].device: is missing, and so are devices; must be one of both");
}

}  // namespace
}  // namespace medley
