#include "runtime/wire/cluster_codec.h"

#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/wire/random_message.h"

namespace medley {
namespace {

using google::protobuf::util::MessageDifferencer;

void Add(google::protobuf::RepeatedPtrField<v1::LinkPoint>* points, double bytes, double seconds) {
  points->Add()->set_bytes(bytes);
  points->rbegin()->set_seconds(seconds);
}

// Of passes, and one of each other class, or none.
template <typename Message>
void TidyCorrections(Message& of) {
  if (of.has_correction()) of.mutable_correction()->clear_times(), of.mutable_correction()->clear_device();
  v1::ProfileCorrection any =
      of.other_corrections().empty() ? v1::ProfileCorrection() : of.other_corrections(0);
  any.clear_device();
  const bool none = of.other_corrections().empty();
  of.clear_other_corrections();
  for (int times = v1::TimeClass_MIN + 1; !none && times <= v1::TimeClass_MAX; ++times) {
    v1::ProfileCorrection& correction = *of.add_other_corrections();
    correction = any;
    correction.set_times(static_cast<v1::TimeClass>(times));
  }
}

// One of a device, or none.
void TidyDevices(v1::DeviceProfile& profile) {
  if (profile.devices().empty()) return;
  profile.mutable_devices()->DeleteSubrange(1, profile.devices_size() - 1);
  profile.mutable_devices(0)->clear_times();
}

// `link`: a LinkProfile or a LinkClass.
template <typename Link>
void SetAllReduce(Link& link, std::mt19937_64& random) {
  link.clear_all_reduce();
  const int counts = static_cast<int>(random() % 3);
  for (int i = 0; i < counts; ++i) {
    v1::AllReduceTimes& times = *link.add_all_reduce();
    times.set_members(2 + 3 * i);
    Add(times.mutable_points(), 1 << 20, 1e-6 * static_cast<double>(random() % 10));
    Add(times.mutable_points(), 1 << 30, 1e-2);
  }
}

// Any valid one, with links that make sense.
v1::ClusterSpec RandomCluster(uint64_t seed) {
  std::mt19937_64 random(seed);
  v1::ClusterSpec cluster;
  FillRandomly(cluster, random);
  if (cluster.nodes().empty()) cluster.add_nodes()->set_name("a");
  for (v1::LinkProfile& link : *cluster.mutable_links()) {
    link.set_latency_seconds(1e-6);
    link.clear_transfer();
    link.clear_exchange();
    SetAllReduce(link, random);
    if (random() % 2 == 0) continue;
    Add(link.mutable_transfer(), 8, 1e-6);
    Add(link.mutable_transfer(), 1 << 20, 1e-3);
    Add(link.mutable_exchange(), 64, 1e-6 * static_cast<double>(random() % 10));
  }
  std::vector<std::string> sites;
  for (const v1::Node& node : cluster.nodes()) sites.push_back(node.site());
  for (const v1::NodeGroup& group : cluster.node_groups()) sites.push_back(group.site());
  for (v1::LinkClass& link : *cluster.mutable_link_classes()) {
    link.clear_transfer();
    link.clear_exchange();
    SetAllReduce(link, random);
    if (link.level() != v1::LINK_LEVEL_SITES) link.clear_a_site(), link.clear_b_site();
    if (link.has_a_site()) link.set_a_site(sites[random() % sites.size()]);
    if (link.has_b_site()) link.set_b_site(sites[random() % sites.size()]);
    if (link.has_a_site() && link.a_site() == link.b_site()) link.clear_b_site();
  }
  for (v1::NodeGroup& group : *cluster.mutable_node_groups()) {
    group.set_name("g");  // any text is allowed by its rule, and not all of them name nodes
    group.set_count(1 + group.count() % 3);
    if (group.devices().empty()) group.mutable_device()->set_name("d");
    if (!group.devices().empty()) group.clear_device(), group.clear_devices_per_node();
    if (group.has_devices_per_node()) group.set_devices_per_node(1 + group.devices_per_node() % 3);
  }
  cluster.clear_kind_prices();
  if (!cluster.node_groups().empty()) {
    const v1::NodeGroup& group = cluster.node_groups(0);
    cluster.add_kind_prices()->set_kind(group.has_device() ? group.device().kind() : group.devices(0).kind());
    cluster.mutable_kind_prices(0)->set_price_per_hour(1 + static_cast<double>(seed % 3));
  }
  if (cluster.has_default_link()) {
    cluster.mutable_default_link()->clear_transfer();
    cluster.mutable_default_link()->clear_exchange();
    SetAllReduce(*cluster.mutable_default_link(), random);
  }
  return cluster;
}

TEST_CASE("a cluster survives the wire") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  const v1::ClusterSpec message = RandomCluster(seed);
  const absl::StatusOr<Cluster> cluster = DecodeCluster(message);
  REQUIRE(cluster.status().ToString() == "OK");
  size_t nodes = message.nodes_size();
  for (const v1::NodeGroup& group : message.node_groups()) nodes += group.count();
  CHECK(cluster->nodes.size() == nodes);
  CHECK(cluster->links.size() == static_cast<size_t>(message.links_size()));
  CHECK(cluster->default_link.has_value() == message.has_default_link());
  const absl::StatusOr<Cluster> back = DecodeCluster(EncodeCluster(*cluster));
  REQUIRE(back.status().ToString() == "OK");
  CHECK(*back == *cluster);
}

TEST_CASE("a device has its own price, or its kind's, or none") {
  v1::ClusterSpec cluster;
  v1::Node& node = *cluster.add_nodes();
  node.set_name("a");
  for (const char* kind : {"A100", "A100", "A100", "L4"}) {
    v1::Device& device = *node.add_devices();
    device.set_name(absl::StrCat("gpu", node.devices_size()));
    device.set_kind(kind);
    device.set_memory_bytes(1 << 30);
  }
  node.mutable_devices(1)->set_price_per_hour(3.5);
  node.mutable_devices(2)->set_price_per_hour(0);
  v1::NodeGroup& group = *cluster.add_node_groups();
  group.set_name("b");
  group.set_count(1);
  group.set_devices_per_node(1);
  *group.mutable_device() = node.devices(0);
  v1::KindPrice& price = *cluster.add_kind_prices();
  price.set_kind("A100");
  price.set_price_per_hour(2);
  const absl::StatusOr<Cluster> decoded = DecodeCluster(cluster);
  REQUIRE(decoded.status().ToString() == "OK");
  std::vector<double> prices;
  for (const ClusterNode& each : decoded->nodes) {
    for (const ClusterDevice& device : each.devices) prices.push_back(device.price_per_hour);
  }
  CHECK(prices == std::vector<double>{2, 3.5, 0, 0, 2});
  CHECK(*DecodeCluster(EncodeCluster(*decoded)) == *decoded);

  *cluster.add_kind_prices() = price;
  CHECK(DecodeCluster(cluster).status().message() == "kind_prices[1].kind: \"A100\" is there twice");
  price.set_kind("A10");
  CHECK(DecodeCluster(cluster).status().message() ==
        "kind_prices[0].kind: \"A10\" is the kind of no device; there are A100, L4");
}

TEST_CASE("groups of nodes are the nodes that they stand for, and links go by classes") {
  v1::ClusterSpec cluster;
  CHECK(DecodeCluster(cluster).status().message() ==
        "nodes: there are none, and no node_groups; at least one of either is needed");
  v1::NodeGroup& group = *cluster.add_node_groups();
  group.set_name("large");
  group.set_count(2);
  group.set_site("north");
  group.set_network_cards(8);
  group.set_devices_per_node(2);
  group.mutable_device()->set_name("gpu");
  group.mutable_device()->set_kind("A100");
  group.mutable_device()->set_memory_bytes(1 << 30);
  v1::LinkClass& link = *cluster.add_link_classes();
  link.set_level(v1::LINK_LEVEL_SITES);
  link.set_a_kind("A100");
  link.set_latency_seconds(1e-3);
  link.set_bytes_per_second(1e9);
  const absl::StatusOr<Cluster> decoded = DecodeCluster(cluster);
  REQUIRE(decoded.status().ToString() == "OK");
  REQUIRE(decoded->nodes.size() == 2);
  CHECK(decoded->nodes[1].name == "large-1");
  CHECK(decoded->nodes[1].site == "north");
  CHECK(decoded->nodes[1].network_cards == 8);
  CHECK(EncodeCluster(*decoded).nodes(1).network_cards() == 8);
  REQUIRE(decoded->nodes[1].devices.size() == 2);
  CHECK(decoded->nodes[1].devices[1].description.name == "gpu1");
  CHECK(decoded->nodes[1].devices[1].kind == "A100");
  REQUIRE(decoded->link_classes.size() == 1);
  CHECK(decoded->link_classes[0].level == LinkLevel::kSites);
  CHECK(decoded->link_classes[0].Joins({"V100", "north"}, {"A100", "south"}));
  CHECK_FALSE(decoded->link_classes[0].Joins({"V100", "north"}, {"V100", "south"}));
  CHECK(decoded->link_classes[0].cost.exchange.Seconds(1e9) == Approx(1.001));
}

v1::ClusterSpec AtSites(const std::vector<std::string>& sites) {
  v1::ClusterSpec cluster;
  for (const std::string& site : sites) {
    v1::Node& node = *cluster.add_nodes();
    node.set_name(absl::StrCat("n", cluster.nodes_size()));
    node.set_site(site);
  }
  return cluster;
}

v1::LinkClass& AddBetweenSites(v1::ClusterSpec& cluster) {
  v1::LinkClass& link = *cluster.add_link_classes();
  link.set_level(v1::LINK_LEVEL_SITES);
  link.set_bytes_per_second(1e9);
  return link;
}

TEST_CASE("a class of links is of two sites by name, of all ways of one, or of all sites") {
  v1::ClusterSpec cluster = AtSites({"north", "south", ""});
  AddBetweenSites(cluster);
  AddBetweenSites(cluster).set_b_site("south");
  v1::LinkClass& two = AddBetweenSites(cluster);
  two.set_a_site("north");
  two.set_a_kind("A100");
  two.set_b_site("");
  const absl::StatusOr<Cluster> decoded = DecodeCluster(cluster);
  REQUIRE(decoded.status().ToString() == "OK");
  const auto joins = [&](int link, const ClusterLinkClass::End& a, const ClusterLinkClass::End& b) {
    CHECK(decoded->link_classes[link].Joins(a, b) == decoded->link_classes[link].Joins(b, a));
    return decoded->link_classes[link].Joins(a, b);
  };
  CHECK(joins(0, {"A100", "north"}, {"A100", ""}));
  CHECK(joins(1, {"A100", "north"}, {"L4", "south"}));
  CHECK_FALSE(joins(1, {"A100", "north"}, {"L4", ""}));
  CHECK(joins(2, {"A100", "north"}, {"L4", ""}));
  CHECK_FALSE(joins(2, {"L4", "north"}, {"A100", ""}));  // the kind is of the devices at the named site
  CHECK_FALSE(joins(2, {"A100", "north"}, {"L4", "south"}));
  const v1::ClusterSpec encoded = EncodeCluster(*decoded);
  CHECK(*DecodeCluster(encoded) == *decoded);
  CHECK_FALSE(encoded.link_classes(0).has_a_site());
  CHECK_FALSE(encoded.link_classes(1).has_a_site());
  CHECK(encoded.link_classes(2).has_b_site());

  // Without nodes at a site its ways join nothing.
  Cluster smaller = *decoded;
  smaller.nodes.pop_back();
  CHECK(EncodeCluster(smaller).link_classes_size() == 2);
  CHECK(DecodeCluster(EncodeCluster(smaller)).ok());
}

TEST_CASE("nodes and groups have racks, and links a level between them") {
  v1::ClusterSpec cluster = AtSites({"north", "north", "south"});
  cluster.mutable_nodes(0)->set_rack("r1");
  cluster.add_link_classes()->set_level(v1::LINK_LEVEL_RACKS);
  cluster.mutable_link_classes(0)->set_bytes_per_second(1e9);
  v1::NodeGroup& group = *cluster.add_node_groups();
  group.set_name("g");
  group.set_count(2);
  group.set_rack("r2");
  group.set_devices_per_node(1);
  group.mutable_device()->set_name("gpu");
  const absl::StatusOr<Cluster> decoded = DecodeCluster(cluster);
  REQUIRE(decoded.status().ToString() == "OK");
  CHECK(decoded->nodes[0].rack == "r1");
  CHECK(decoded->nodes[1].rack.empty());
  CHECK(decoded->nodes[4].rack == "r2");
  CHECK(decoded->link_classes[0].level == LinkLevel::kRacks);
  const auto level = [&](int a, int b) { return LevelBetween(a == b, decoded->nodes[a], decoded->nodes[b]); };
  CHECK(level(0, 0) == LinkLevel::kNode);
  CHECK(level(0, 1) == LinkLevel::kRacks);
  CHECK(level(0, 2) == LinkLevel::kSites);
  CHECK(level(3, 4) == LinkLevel::kSite);
  const absl::StatusOr<Cluster> again = DecodeCluster(EncodeCluster(*decoded));
  REQUIRE(again.status().ToString() == "OK");
  CHECK(*again == *decoded);
}

TEST_CASE("a class of links that names sites where it cannot is refused by field") {
  v1::ClusterSpec cluster = AtSites({"south", "north", ""});
  AddBetweenSites(cluster);
  v1::LinkClass& link = AddBetweenSites(cluster);
  const auto refusal = [&] {
    const absl::Status status = DecodeCluster(cluster).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  link.set_b_site("west");
  CHECK(refusal() ==
        "link_classes[1].b_site: \"west\" is the site of no node; there are \"\", \"north\", \"south\"");
  link.set_a_site("north");
  link.set_b_site("north");
  CHECK(refusal() ==
        "link_classes[1].b_site: \"north\" is a_site, too; links of level sites join two different ones");
  link.clear_b_site();
  for (const v1::LinkLevel level : {v1::LINK_LEVEL_NODE, v1::LINK_LEVEL_SITE, v1::LINK_LEVEL_RACKS}) {
    link.set_level(level);
    CHECK(refusal() ==
          "link_classes[1].a_site: \"north\" stands with another level; only links of level sites may say "
          "sites");
  }
  link.set_level(v1::LINK_LEVEL_SITES);
  CHECK(DecodeCluster(cluster).status().ToString() == "OK");
}

TEST_CASE("nothing of a profile or a slow-down is lost as a value") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  const v1::ClusterSpec message = RandomCluster(seed);
  for (v1::DeviceProfile profile : message.profiles()) {
    profile.set_workspace_bytes(profile.workspace_bytes() / 4);
    for (v1::BlockPassTimes& times : *profile.mutable_times())
      times.set_workspace_bytes(times.workspace_bytes() / 4);
    profile.clear_matmul_flops_per_second();  // nothing is planned by it
    // As all are whose profiles say nothing of it.
    if (profile.basis() == v1::PREDICTION_BASIS_MEASURED_DEVICES) profile.clear_basis();
    TidyCorrections(profile);
    TidyDevices(profile);
    CAPTURE(profile.DebugString());
    CHECK(MessageDifferencer::Equals(EncodeProfile(DecodeProfile(profile)), profile));
  }
  for (v1::HostSlowdown slowdown : message.slowdowns()) {
    for (v1::SharedSlowdown& shared : *slowdown.mutable_devices()) TidyCorrections(shared);
    CAPTURE(slowdown.DebugString());
    CHECK(MessageDifferencer::Equals(EncodeSlowdown(DecodeSlowdown(slowdown)), slowdown));
  }
}

TEST_CASE("a device has what its agent was told and what opening it showed") {
  v1::Device device;
  device.set_name("gpu0");
  device.set_backend("emulated");
  device.set_memory_bytes(std::numeric_limits<uint64_t>::max());
  device.set_kind("emulated A100");
  device.set_computes_bf16(true);
  device.set_emulated(true);
  const ClusterDevice decoded = DecodeClusterDevice(device);
  CHECK(decoded.description.backend == "emulated");
  CHECK(decoded.description.memory_limit.value == std::numeric_limits<int64_t>::max());
  CHECK(decoded.kind == "emulated A100");
  CHECK(decoded.computes == ComputedPrecisions{.bf16 = true});
  CHECK(decoded.emulated);
  device.set_memory_bytes(std::numeric_limits<int64_t>::max());
  CHECK(MessageDifferencer::Equals(EncodeClusterDevice(decoded), device));
}

TEST_CASE("a link's points are refused by name where they make no sense") {
  v1::ClusterSpec cluster;
  cluster.add_nodes()->set_name("a");
  cluster.add_links();
  v1::LinkProfile& link = *cluster.add_links();
  Add(link.mutable_transfer(), 8, 1e-6);
  Add(link.mutable_transfer(), 4096, 3e-6);
  Add(link.mutable_transfer(), 4096, 4e-6);
  const absl::Status twice = DecodeCluster(cluster).status();
  CHECK(absl::IsInvalidArgument(twice));
  CHECK(twice.message() == "links[1].transfer[2].bytes: 4096 after 4096; must ascend");
  link.clear_transfer();
  Add(cluster.mutable_default_link()->mutable_exchange(), 8, 2);
  Add(cluster.mutable_default_link()->mutable_exchange(), 16, 1);
  CHECK(DecodeCluster(cluster).status().message() ==
        "default_link.exchange[1].seconds: 1 after 2; must not fall");
  cluster.clear_default_link();
  v1::AllReduceTimes& times = *cluster.add_link_classes()->add_all_reduce();
  times.set_members(2);
  CHECK(DecodeCluster(cluster).status().message() ==
        "link_classes[0].all_reduce[0].points: there are none; at least one is needed");
  Add(times.mutable_points(), 8, 2);
  Add(times.mutable_points(), 16, 1);
  CHECK(DecodeCluster(cluster).status().message() ==
        "link_classes[0].all_reduce[0].points[1].seconds: 1 after 2; must not fall");
}

}  // namespace
}  // namespace medley
