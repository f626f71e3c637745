#include "coordinator/problem/planning_problem.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/problem/processors.h"
#include "runtime/ir/cluster/not_measured.h"
#include "runtime/ir/model/block_sizes.h"

namespace medley {
namespace {

TrainingSpec Spec() {
  TrainingSpec spec;
  spec.shape = {{6, 256, 8, 1024, 256, 512}, 256, 4};
  return spec;
}

const char kShape[] = "gpt2 hidden=256 heads=8 ff=1024 vocabulary=256 sequence=256 precision=f32";

void AddProfile(Cluster& cluster, const std::string& kind, double seconds, double measured_at,
                const std::vector<int>& sizes) {
  DeviceProfile& profile = cluster.profiles.emplace_back();
  profile.device_kind = kind;
  profile.shape = kShape;
  profile.measured_at_seconds = measured_at;
  profile.update_seconds_per_parameter = seconds * 1e-6;
  profile.workspace = Bytes{1000};
  for (const int size : sizes) {
    ProfiledTimes& times = profile.times.emplace_back();
    times.micro_batch_sequences = size;
    if (size < 4) times.workspace = Bytes{100 * size};
    times.blocks.layer.forward_seconds = seconds * size;
    times.blocks.head.backward_seconds = seconds * size / 2;
  }
}

void AddNode(Cluster& cluster, const std::string& name, const std::string& host, const std::string& kind,
             const std::vector<int>& cores) {
  cluster.nodes.push_back(
      {name,
       host,
       {{.description = {.name = "cpu0", .cores = cores, .memory_limit = GiB(1)}, .kind = kind}}});
}

// Nodes a (kind fast, core 0), b (slow, core 1) and c (slow, core 1) of one host.
Cluster ThreeNodes() {
  Cluster cluster;
  AddNode(cluster, "a", "laptop", "fast", {0});
  AddNode(cluster, "b", "laptop", "slow", {1});
  AddNode(cluster, "c", "laptop", "slow", {1});
  AddProfile(cluster, "fast", 0.01, 1, {1, 2, 4});
  AddProfile(cluster, "slow", 0.04, 1, {1, 2, 4});
  cluster.links = {
      {.a = "b/cpu0", .b = "a/cpu0", .cost = {LinkModel::Line(1e-6, 1e10), LinkModel::Line(1e-6, 5e9)}}};
  cluster.default_link = {LinkModel::Line(0, 1e9), LinkModel::Line(0, 1e9)};
  return cluster;
}

TEST_CASE("a device's memory, and what exchanges it, is as it was found with its copies") {
  Cluster cluster = ThreeNodes();
  DeviceProfile& fast = cluster.profiles[0];
  fast.fetch_bytes_per_second = 2e10;
  fast.store_bytes_per_second = 1e10;
  fast.has_own_memory = true;
  fast.group_library = "NCCL 2.28.3";
  TrainingSpec spec = Spec();
  spec.communication.device_memory = DeviceMemoryStrategy::kStaged;
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(spec, {}, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  CHECK(problem->devices[0].has_own_memory);
  CHECK(problem->devices[0].group_library == "NCCL 2.28.3");
  CHECK(problem->devices[0].store_bytes_per_second == 1e10);
  CHECK_FALSE(problem->devices[1].has_own_memory);
  CHECK(problem->devices[1].group_library.empty());
  CHECK(problem->device_memory == DeviceMemoryStrategy::kStaged);
}

TEST_CASE("all devices of a host have the least of what its nodes say of its memory") {
  Cluster cluster = ThreeNodes();
  AddNode(cluster, "d", "", "fast", {0});
  AddNode(cluster, "e", "", "fast", {0});
  cluster.nodes[0].host_memory = GiB(9);
  cluster.nodes[1].host_memory = GiB(7);  // the third does not say
  cluster.nodes[3].host_memory = GiB(2);
  const auto problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  for (int d = 0; d < 3; ++d) CHECK(problem->devices[d].host_memory == GiB(7));
  CHECK(problem->devices[3].host_memory == GiB(2));
  CHECK(problem->devices[4].host_memory == Bytes{0});
}

TEST_CASE("a device's limit of one buffer is its room's, measured or not") {
  Cluster cluster = ThreeNodes();
  cluster.nodes[1].devices[0].description.largest_buffer = MiB(256);
  const auto problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  CHECK(problem->devices[0].room.largest_buffer == Bytes{0});
  CHECK(problem->devices[1].room.largest_buffer == MiB(256));
  CHECK(problem->devices[1].room.memory == GiB(1));
  CHECK(problem->devices[2].room.largest_buffer == Bytes{0});
}

TEST_CASE("devices have their host's network cards, and a site") {
  Cluster cluster = ThreeNodes();
  AddNode(cluster, "d", "", "fast", {0});
  cluster.nodes[1].network_cards = 4;  // the others of its host do not say
  cluster.nodes[3].site = "south";
  const auto problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  for (int d = 0; d < 3; ++d) CHECK(problem->devices[d].network_cards == 4);
  CHECK(problem->devices[3].network_cards == 0);
  CHECK(problem->devices[0].site == problem->devices[2].site);
  CHECK(problem->devices[0].site != problem->devices[3].site);
  CHECK(problem->site_names == std::vector<std::string>{"", "south"});
}

TEST_CASE(
    "racks are of their sites, and links between them go by a class of racks, or else by that of the site") {
  Cluster cluster;
  AddProfile(cluster, "fast", 0.01, 1, {1, 2, 4});
  for (const auto& [name, site, rack] :
       {std::tuple("a", "north", ""), std::tuple("b", "north", ""), std::tuple("c", "north", "r1"),
        std::tuple("d", "south", "r1"), std::tuple("e", "north", "r1")}) {
    AddNode(cluster, name, "", "fast", {0});
    cluster.nodes.back().site = site;
    cluster.nodes.back().rack = rack;
  }
  const auto cost = [](double latency) {
    return LinkCost{LinkModel::Line(latency, 1e9), LinkModel::Line(latency, 1e9)};
  };
  cluster.link_classes = {{.level = LinkLevel::kRacks, .cost = cost(2)},
                          {.level = LinkLevel::kSite, .cost = cost(1)},
                          {.level = LinkLevel::kSites, .cost = cost(3)}};
  const auto latency = [](const PlanningProblem& of, int a, int b) {
    return of.links.Between(a, b).transfer.LatencySeconds();
  };
  const auto problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  const auto rack = [&](int d) { return std::pair(problem->devices[d].site, problem->devices[d].rack); };
  CHECK(rack(0) == rack(1));
  CHECK(rack(0) != rack(2));
  CHECK(rack(2) != rack(3));
  CHECK(rack(2) == rack(4));
  CHECK(latency(*problem, 0, 1) == 1);
  CHECK(latency(*problem, 2, 4) == 1);
  CHECK(latency(*problem, 0, 2) == 2);
  CHECK(latency(*problem, 2, 3) == 3);
  cluster.link_classes.erase(cluster.link_classes.begin());
  const auto without = MakeProblem(Spec(), {}, cluster);
  REQUIRE(without.status().ToString() == "OK");
  CHECK(latency(*without, 0, 2) == 1);
}

TEST_CASE("a problem has each device's own times, memory, processor and links") {
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, ThreeNodes());
  REQUIRE(problem.status().ToString() == "OK");
  CHECK(problem->micro_batch_sizes == std::vector<int>{1, 2, 4});
  REQUIRE(problem->devices.size() == 3);
  CHECK(problem->devices[0].name == "a/cpu0");
  CHECK(problem->devices[0].times[2].layer.forward_seconds == Approx(0.04));
  CHECK(problem->devices[1].times[2].layer.forward_seconds == Approx(0.16));
  CHECK(problem->devices[1].times[0].head.backward_seconds == Approx(0.02));
  CHECK(problem->devices[2].room.memory == GiB(1));
  const DeviceRoom& room = problem->devices[2].room;
  CHECK(room.workspace == Bytes{1000});
  CHECK(room.workspace_by_size == std::vector<SizedWorkspace>{{1, Bytes{100}}, {2, Bytes{200}}});
  CHECK(room.WorkspaceFor(2) == Bytes{200});
  CHECK(room.WorkspaceFor(4) == Bytes{1000});
  CHECK(room.WorkspaceFor(0) == Bytes{1000});
  CHECK(problem->devices[0].cores == 1);
  CHECK(problem->devices[0].processor == 0);
  CHECK(problem->devices[1].processor == 1);
  CHECK(problem->devices[2].processor == 1);
  CHECK(problem->links.Between(0, 1) == LinkCost{LinkModel::Line(1e-6, 1e10), LinkModel::Line(1e-6, 5e9)});
  CHECK(problem->links.Between(1, 0) == problem->links.Between(0, 1));
  CHECK(problem->links.Between(0, 2) == LinkCost{LinkModel::Line(0, 1e9), LinkModel::Line(0, 1e9)});
  for (const DeviceCost& device : problem->devices) CHECK(device.host == 0);
  CHECK(!problem->forced_all_reduce.has_value());
  CHECK(problem->wire_bytes_per_element == 4);
  CHECK(problem->constraints.schedules.size() == 2);
}

TEST_CASE("what running jobs taught multiplies a profile's times, each class by its own factor") {
  Cluster cluster = ThreeNodes();
  DeviceProfile& fast = cluster.profiles[0];
  fast.norm_seconds_per_parameter = 1e-9;
  fast.fetch_bytes_per_second = 2e10;
  fast.store_bytes_per_second = 1e10;
  for (ProfiledTimes& times : fast.times) {
    times.blocks.layer.recompute_seconds = 0.3;
    times.blocks.layer.recompute_but_attention_seconds = 0.2;
  }
  fast.corrections[TimeClass::kPasses] = {.factor = 0.5};
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.ok());
  CHECK(problem->devices[0].times[2].layer.forward_seconds == Approx(0.02));
  CHECK(problem->devices[0].times[2].head.backward_seconds == Approx(0.01));
  CHECK(problem->devices[0].update_seconds_per_parameter == Approx(0.01 * 1e-6));
  CHECK(problem->devices[1].times[2].layer.forward_seconds == Approx(0.16));
  // Nothing else is known of them.
  CHECK(problem->devices[0].times[2].layer.recompute_seconds == Approx(0.15));

  fast.corrections = {{TimeClass::kRecomputations, {.factor = 2}},
                      {TimeClass::kUpdates, {.factor = 3}},
                      {TimeClass::kNorms, {.factor = 4}},
                      {TimeClass::kFetches, {.factor = 5}},
                      {TimeClass::kStores, {.factor = 0.5}}};
  const absl::StatusOr<PlanningProblem> others = MakeProblem(Spec(), {}, cluster);
  REQUIRE(others.ok());
  const DeviceCost& device = others->devices[0];
  CHECK(device.times[2].layer.forward_seconds == Approx(0.04));
  CHECK(device.times[2].layer.recompute_seconds == Approx(0.6));
  CHECK(device.times[2].layer.recompute_but_attention_seconds == Approx(0.4));
  CHECK(device.update_seconds_per_parameter == Approx(3 * 0.01 * 1e-6));
  CHECK(device.norm_seconds_per_parameter == Approx(4e-9));
  CHECK(device.fetch_bytes_per_second == Approx(4e9));
  CHECK(device.store_bytes_per_second == Approx(2e10));
}

TEST_CASE(
    "a device that is slow among its kind takes that much longer, beside what was taught about all of them") {
  Cluster cluster = ThreeNodes();
  DeviceProfile& slow = cluster.profiles[1];
  slow.norm_seconds_per_parameter = 1e-9;
  slow.corrections[TimeClass::kPasses] = {.factor = 0.5};
  slow.devices["c/cpu0"] = {.factor = 1.5};
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.ok());
  const DeviceCost &fast = problem->devices[0], &other = problem->devices[1], &device = problem->devices[2];
  CHECK(other.times[2].layer.forward_seconds == Approx(0.08));
  CHECK(device.times[2].layer.forward_seconds == Approx(0.12));
  CHECK(device.times[2].head.backward_seconds == Approx(1.5 * other.times[2].head.backward_seconds));
  CHECK(device.update_seconds_per_parameter == other.update_seconds_per_parameter);
  CHECK(device.norm_seconds_per_parameter == other.norm_seconds_per_parameter);
  CHECK(fast.times[2].layer.forward_seconds == Approx(0.04));
}

TEST_CASE("the gradient of the weights is a part of backward: as measured, or as its work suggests") {
  const TrainingSpec spec = Spec();
  const auto layer_of = [&](double backward_seconds, double measured_seconds) {
    Cluster cluster = ThreeNodes();
    BlockTimes& measured = cluster.profiles[0].times[0].blocks;
    measured.layer.backward_seconds = backward_seconds;
    measured.layer.weight_gradient_seconds = measured_seconds;
    measured.embedding.backward_seconds = 0.25;
    cluster.profiles[0].corrections[TimeClass::kPasses] = {.factor = 2};
    const absl::StatusOr<PlanningProblem> problem = MakeProblem(spec, {}, cluster);
    REQUIRE(problem.ok());
    const BlockTimes& block = problem->devices[0].times[0];
    CHECK(block.embedding.weight_gradient_seconds == Approx(0.5));  // all that an embedding's backward does
    CHECK(block.head.weight_gradient_seconds == 0);                 // which puts nothing off
    CHECK(block.layer.backward_seconds == Approx(2 * backward_seconds));
    return block.layer.weight_gradient_seconds;
  };
  CHECK(layer_of(3, 1) == Approx(2));
  CHECK(layer_of(3, 4) == Approx(6));  // never more than backward
  const BlockWork work = WorkOf(spec.shape.model, 1, 1, spec.shape.sequence);
  const double share = work.weight_gradient.flops / work.backward().flops;
  CHECK(share > 0.3);
  CHECK(share < 0.5);
  CHECK(layer_of(3, 0) == Approx(6 * share));
}

// Devices a/cpu0 and d/cpu0 of the host, of a kind and on cores of their own, beside two that share one.
Cluster SlowedCluster() {
  Cluster cluster = ThreeNodes();
  AddNode(cluster, "d", "laptop", "fast", {2});
  cluster.slowdowns = {
      {.host = "laptop",
       .shape = kShape,
       .devices = {{"a/cpu0", "fast", 1.301}, {"b/cpu0", "slow", 1.5}, {"d/cpu0", "fast", 1.213}}}};
  return cluster;
}

TEST_CASE("devices of a host slow each other down as was measured, equally for all of a kind") {
  Cluster cluster = SlowedCluster();
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  for (const int d : {0, 3}) {
    CHECK(problem->devices[d].shared_slowdown == Approx(1.26));         // hundredths
    CHECK(problem->devices[d].shared_update_slowdown == Approx(1.26));  // nothing else is known
    CHECK(problem->devices[d].shared_with == 2);
  }
  for (const int d : {1, 2}) {  // on one processor: they slow each other down anyway
    CHECK(problem->devices[d].shared_slowdown == 1);
    CHECK(problem->devices[d].shared_with == 0);
  }

  Cluster other = cluster;
  other.slowdowns[0].shape = "another";
  CHECK(MakeProblem(Spec(), {}, other)->devices[0].shared_with == 0);
  other.slowdowns[0].shape = kShape;
  other.slowdowns[0].host = "tower";
  CHECK(MakeProblem(Spec(), {}, other)->devices[0].shared_with == 0);

  for (SharedSlowdown& shared : cluster.slowdowns[0].devices) shared.factor = 1.015;
  CHECK(MakeProblem(Spec(), {}, cluster)->devices[0].shared_with == 0);  // noise
  for (SharedSlowdown& shared : cluster.slowdowns[0].devices) shared.update_factor = 1.8;
  CHECK(MakeProblem(Spec(), {}, cluster)->devices[0].shared_slowdown == 1);
  CHECK(MakeProblem(Spec(), {}, cluster)->devices[0].shared_update_slowdown == Approx(1.8));
  for (SharedSlowdown& shared : cluster.slowdowns[0].devices) shared.update_factor = 1;
  // What jobs taught counts, also where the measurement found nothing; nobody is faster for company.
  const auto taught = [&](TimeClass times, double factor) {
    for (SharedSlowdown& shared : cluster.slowdowns[0].devices)
      shared.corrections = {{times, {.factor = factor}}};
    return MakeProblem(Spec(), {}, cluster)->devices[0];
  };
  CHECK(taught(TimeClass::kPasses, 1.2).shared_slowdown == Approx(1.22));
  CHECK(taught(TimeClass::kPasses, 1.2).shared_update_slowdown == 1);
  CHECK(taught(TimeClass::kPasses, 0.5).shared_slowdown == 1);
  CHECK(taught(TimeClass::kUpdates, 1.5).shared_update_slowdown == Approx(1.5));
  CHECK(taught(TimeClass::kUpdates, 1.5).shared_slowdown == 1);
}

// Hosts h0, h1 and h2 of two fast devices each; the first two were measured.
Cluster AlikeHosts() {
  Cluster cluster;
  AddProfile(cluster, "fast", 0.01, 1, {1, 2, 4});
  cluster.default_link = {LinkModel::Line(0, 1e9), LinkModel::Line(0, 1e9)};
  for (const auto& [host, factor] : {std::pair("h0", 1.1), std::pair("h1", 1.3), std::pair("h2", 0.0)}) {
    HostSlowdown slowdown{.host = host, .shape = kShape};
    for (int d = 0; d < 2; ++d) {
      const std::string node = absl::StrCat(host, "-", d);
      AddNode(cluster, node, host, "fast", {d});
      slowdown.devices.push_back({node + "/cpu0", "fast", factor});
    }
    if (factor > 0) cluster.slowdowns.push_back(std::move(slowdown));
  }
  return cluster;
}

TEST_CASE("devices of hosts that are alike cost the same, measured or not, and whatever jobs taught of one") {
  Cluster cluster = AlikeHosts();
  for (const double expected : {1.2, 1.32}) {
    const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
    REQUIRE(problem.status().ToString() == "OK");
    REQUIRE(problem->devices.size() == 6);
    for (const DeviceCost& device : problem->devices) {
      CHECK(device.shared_slowdown == Approx(expected));
      CHECK(device.shared_with == 1);
      CHECK(SameCost(device, problem->devices[0]));
    }
    for (SharedSlowdown& shared : cluster.slowdowns[0].devices)
      shared.corrections = {{TimeClass::kPasses, {.factor = 1.1}}};
  }
  // One more device, and the host is another.
  AddNode(cluster, "h2-2", "h2", "fast", {2});
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  CHECK(problem->devices[4].shared_with == 0);
  CHECK(problem->devices[0].shared_with == 1);
}

TEST_CASE("the newest measurement counts, size by size") {
  Cluster cluster = ThreeNodes();
  AddProfile(cluster, "fast", 0.02, 5, {1});
  AddProfile(cluster, "fast", 0.99, 0, {1, 2, 4});
  ClusterLink newer = cluster.links[0];
  newer.a = "a/cpu0";
  newer.b = "b/cpu0";
  newer.cost.transfer = LinkModel::Line(1e-6, 2e10);
  newer.measured_at_seconds = 7;
  cluster.links.push_back(newer);
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.ok());
  CHECK(problem->devices[0].times[0].layer.forward_seconds == Approx(0.02));
  CHECK(problem->devices[0].times[1].layer.forward_seconds == Approx(0.02));
  CHECK(problem->links.Between(0, 1).transfer == LinkModel::Line(1e-6, 2e10));
}

TEST_CASE("a link's points are its model") {
  Cluster cluster = ThreeNodes();
  cluster.links[0].cost.transfer = {{{8, 1e-6}, {4096, 3e-6}}};
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.ok());
  CHECK(problem->links.Between(0, 1).transfer == LinkModel{{{8, 1e-6}, {4096, 3e-6}}});
  CHECK(problem->links.Between(0, 1).exchange == LinkModel::Line(1e-6, 5e9));
}

TEST_CASE("hosts and what the job forces of its sums are the problem's") {
  Cluster cluster = ThreeNodes();
  cluster.nodes[1].host = "tower";
  cluster.nodes[2].host.clear();
  TrainingSpec spec = Spec();
  spec.communication.all_reduce = CollectiveAlgorithm::kTree;
  spec.communication.gradient_wire = Precision::kBf16;
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(spec, {}, cluster);
  REQUIRE(problem.ok());
  CHECK(problem->devices[0].host != problem->devices[1].host);
  CHECK(problem->devices[1].host != problem->devices[2].host);
  CHECK(problem->devices[0].host != problem->devices[2].host);
  CHECK(problem->forced_all_reduce == CollectiveAlgorithm::kTree);
  CHECK(problem->wire_bytes_per_element == 2);
}

TEST_CASE("constraints choose devices, sizes and schedules") {
  const JobConstraints constraints = {.devices = {"c/cpu0", "a/cpu0"},
                                      .micro_batch_sizes = {2},
                                      .schedules = {Schedule::kGPipe},
                                      .max_routes = 3,
                                      .max_stages = 2};
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), constraints, ThreeNodes());
  REQUIRE(problem.ok());
  REQUIRE(problem->devices.size() == 2);
  CHECK(problem->devices[1].name == "c/cpu0");
  CHECK(problem->micro_batch_sizes == std::vector<int>{2});
  CHECK(problem->constraints.schedules == std::vector<Schedule>{Schedule::kGPipe});
  CHECK(problem->constraints.max_routes == 3);
  CHECK(problem->constraints.max_stages == 2);
}

TEST_CASE(
    "orders are synthesised where that is asked for, or the gradient of weights was measured everywhere") {
  Cluster cluster = ThreeNodes();
  const auto allowed = [&](std::vector<Schedule> schedules) {
    const auto problem = MakeProblem(Spec(), {.schedules = std::move(schedules)}, cluster);
    REQUIRE(problem.ok());
    return problem->constraints;
  };
  const std::vector<Schedule> all(std::begin(kPlannedSchedules), std::end(kPlannedSchedules));
  CHECK_FALSE(allowed({}).synthesised_orders);
  CHECK_FALSE(allowed({Schedule::kGPipe}).synthesised_orders);
  const PlanConstraints asked = allowed({Schedule::kListed, Schedule::kGPipe});
  CHECK(asked.synthesised_orders);
  CHECK(asked.schedules == std::vector<Schedule>{Schedule::kGPipe});
  for (DeviceProfile& profile : cluster.profiles) {
    CHECK_FALSE(allowed({}).synthesised_orders);
    for (ProfiledTimes& times : profile.times) times.blocks.layer = {1, 2, 1};
  }
  CHECK(allowed({}).synthesised_orders);
  CHECK(allowed({}).schedules == all);
  CHECK_FALSE(allowed({Schedule::kGPipe}).synthesised_orders);
}

TEST_CASE("what has not been measured is named") {
  Cluster cluster = ThreeNodes();
  cluster.profiles.clear();
  AddProfile(cluster, "slow", 0.04, 1, {1, 4});
  const absl::StatusOr<std::vector<MissingProfile>> missing = MissingProfiles(Spec(), {}, cluster);
  REQUIRE(missing.ok());
  REQUIRE(missing->size() == 2);
  CHECK((*missing)[0].device == "a/cpu0");
  CHECK((*missing)[0].micro_batch_sizes == std::vector<int>{1, 2, 4});
  CHECK((*missing)[1].device_kind == "slow");
  CHECK((*missing)[1].device == "b/cpu0");
  CHECK((*missing)[1].micro_batch_sizes == std::vector<int>{2});
  const absl::Status status = MakeProblem(Spec(), {}, cluster).status();
  CHECK(IsNotMeasured(status));
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(status.message() ==
        std::string("no profile for shape \"") + kShape +
            "\" of device kind \"fast\" (a/cpu0) with micro-batches of 1, 2, 4; \"slow\" (b/cpu0) with "
            "micro-batches of 2");
  CHECK(MissingProfiles(Spec(), {}, ThreeNodes())->empty());
}

TEST_CASE("a pair without a link is named, unless all have the default") {
  Cluster cluster = ThreeNodes();
  cluster.default_link.reset();
  const absl::Status status = MakeProblem(Spec(), {}, cluster).status();
  CHECK(IsNotMeasured(status));
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(status.message() ==
        "no link between \"c/cpu0\" and \"a/cpu0\", no link class that is theirs, and no default_link");
}

TEST_CASE("links go by level and by kinds, the last class that joins a pair, but for pairs that are named") {
  Cluster cluster;
  const auto add = [&](const std::string& name, const std::string& site,
                       const std::vector<std::string>& kinds) {
    ClusterNode& node = cluster.nodes.emplace_back();
    node.name = name;
    node.site = site;
    for (size_t d = 0; d < kinds.size(); ++d) {
      node.devices.push_back(
          {.description = {.name = absl::StrCat("g", d), .memory_limit = GiB(1)}, .kind = kinds[d]});
    }
  };
  add("a", "north", {"fast", "fast"});
  add("b", "north", {"fast", "slow"});
  add("c", "south", {"fast", "slow"});
  AddProfile(cluster, "fast", 0.01, 1, {1, 2, 4});
  AddProfile(cluster, "slow", 0.04, 1, {1, 2, 4});
  const auto link = [](double seconds) {
    return LinkCost{LinkModel::Line(seconds, 1e9), LinkModel::Line(seconds, 1e9)};
  };
  cluster.link_classes = {{LinkLevel::kNode, "", "", link(1)},
                          {LinkLevel::kNode, "slow", "fast", link(2)},
                          {LinkLevel::kSite, "", "", link(3)},
                          {LinkLevel::kSites, "fast", "fast", link(4)},
                          {LinkLevel::kSites, "slow", "", link(5)}};
  cluster.links = {{.a = "c/g0", .b = "a/g0", .cost = link(9)}};
  // a/g0, a/g1, b/g0, b/g1, c/g0, c/g1
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  const auto seconds = [&](int a, int b) { return problem->links.Between(a, b).transfer.LatencySeconds(); };
  CHECK(seconds(0, 1) == 1);
  CHECK(seconds(2, 3) == 2);
  CHECK(seconds(5, 4) == 2);
  CHECK(seconds(1, 2) == 3);
  CHECK(seconds(3, 0) == 3);
  CHECK(seconds(1, 4) == 4);
  CHECK(seconds(2, 4) == 4);
  CHECK(seconds(3, 5) == 5);
  CHECK(seconds(4, 0) == 9);
  // a/g0 and c/g0 are named, the others are alike by kind and site.
  CHECK(problem->links.ends() == 5);
  cluster.link_classes.erase(cluster.link_classes.begin() + 3);
  CHECK_THAT(std::string(MakeProblem(Spec(), {}, cluster).status().message()),
             Catch::Contains("no link class"));
}

TEST_CASE(
    "links between sites go by both sites, by one of them, or by neither, the last class that joins a pair") {
  Cluster cluster;
  for (const char* site : {"north", "south", "west", ""}) {
    for (int i = 0; i < 2; ++i) {
      AddNode(cluster, absl::StrCat("n", cluster.nodes.size()), "", "fast", {0});
      cluster.nodes.back().site = site;
    }
  }
  AddProfile(cluster, "fast", 0.01, 1, {1, 2, 4});
  const auto link = [](double seconds) {
    return LinkCost{LinkModel::Line(seconds, 1e9), LinkModel::Line(seconds, 1e9)};
  };
  cluster.link_classes = {
      {.level = LinkLevel::kSite, .cost = link(1)},
      {.level = LinkLevel::kSites, .cost = link(2), .a_site = "north", .b_site = "south"},
      {.level = LinkLevel::kSites, .cost = link(3)},
      {.level = LinkLevel::kSites, .cost = link(4), .b_site = "west"},
      {.level = LinkLevel::kSites, .cost = link(5), .a_site = "west", .b_site = "north"},
      {.level = LinkLevel::kSites, .a_kind = "slow", .cost = link(6), .a_site = "west", .b_site = "south"},
      {.level = LinkLevel::kSites, .cost = link(7), .a_site = "", .b_site = "south"}};
  // n0 and n1 in the north, n2 and n3 in the south, n4 and n5 in the west, n6 and n7 do not say.
  const absl::StatusOr<PlanningProblem> problem = MakeProblem(Spec(), {}, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  const auto seconds = [&](int a, int b) {
    CHECK(problem->links.Between(a, b) == problem->links.Between(b, a));
    return problem->links.Between(a, b).transfer.LatencySeconds();
  };
  for (const int other : {0, 1}) {
    CHECK(seconds(2 * other, 2 * other + 1) == 1);
    CHECK(seconds(0, 2 + other) == 3);  // a later class is of all sites
    CHECK(seconds(0, 4 + other) == 5);
    CHECK(seconds(2, 4 + other) == 4);  // none is of another kind
    CHECK(seconds(0, 6 + other) == 3);
    CHECK(seconds(2, 6 + other) == 7);
    CHECK(seconds(4, 6 + other) == 4);
  }
  CHECK(problem->links.ends() == 4);
  CHECK(problem->links.Interchangeable(0, 1));
  CHECK_FALSE(problem->links.Interchangeable(0, 2));
}

TEST_CASE("devices that are not there are named") {
  CHECK(MakeProblem(Spec(), {.devices = {"d/cpu0"}}, ThreeNodes()).status().message() ==
        "constraints.devices: \"d/cpu0\" is none of the devices there are: a/cpu0, b/cpu0, c/cpu0");
  CHECK(absl::IsFailedPrecondition(MakeProblem(Spec(), {}, {}).status()));
  Cluster twice = ThreeNodes();
  twice.nodes.push_back(twice.nodes[0]);
  CHECK(absl::IsInvalidArgument(MakeProblem(Spec(), {}, twice).status()));
}

TEST_CASE("emulated devices are there for rehearsals alone") {
  Cluster cluster = ThreeNodes();
  cluster.nodes[1].devices[0].emulated = true;
  TrainingSpec rehearsal = Spec();
  rehearsal.allow_emulated = true;
  CHECK(MakeProblem(rehearsal, {}, cluster)->devices.size() == 3);
  const absl::StatusOr<PlanningProblem> real = MakeProblem(Spec(), {}, cluster);
  REQUIRE(real.ok());
  REQUIRE(real->devices.size() == 2);
  CHECK(real->devices[0].name == "a/cpu0");
  CHECK(real->devices[1].name == "c/cpu0");

  const JobConstraints constraints = {.devices = {"b/cpu0", "c/cpu0"}};
  CHECK(MakeProblem(rehearsal, constraints, cluster).ok());
  const absl::Status refused = MakeProblem(Spec(), constraints, cluster).status();
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(refused.message() ==
        "constraints.devices: b/cpu0 is emulated and would compute nothing; a rehearsal says allow_emulated: "
        "true");

  for (ClusterNode& node : cluster.nodes) node.devices[0].emulated = true;
  const absl::Status none = MissingProfiles(Spec(), {}, cluster).status();
  CHECK(absl::IsFailedPrecondition(none));
  CHECK_THAT(std::string(none.message()), Catch::Contains("allow_emulated"));
}

TEST_CASE("a device without memory is named") {
  Cluster cluster = ThreeNodes();
  cluster.nodes[2].devices[0].description.memory_limit = Bytes{0};
  CHECK(MakeProblem(Spec(), {}, cluster).status().message() ==
        "nodes: device \"c/cpu0\" has no memory_bytes");
}

TEST_CASE("the shape key tells apart whatever changes a block's time, and nothing else") {
  const std::string key = ShapeKey(Spec());
  CHECK(key == kShape);
  TrainingSpec deeper = Spec();
  deeper.shape.model.layers = 12;
  deeper.shape.global_batch_sequences = 64;
  CHECK(ShapeKey(deeper) == key);
  std::set<std::string> keys = {key};
  for (int ModelConfig::*member :
       {&ModelConfig::hidden, &ModelConfig::heads, &ModelConfig::feed_forward, &ModelConfig::vocabulary}) {
    TrainingSpec other = Spec();
    other.shape.model.*member *= 2;
    keys.insert(ShapeKey(other));
  }
  TrainingSpec longer = Spec();
  longer.shape.sequence = 512;
  keys.insert(ShapeKey(longer));
  TrainingSpec bf16 = Spec();
  bf16.precision = Precision::kBf16;
  keys.insert(ShapeKey(bf16));
  CHECK(keys.size() == 7);
  TrainingSpec llama = Spec();
  llama.shape.model.family = ModelFamily::kLlama;
  keys.insert(ShapeKey(llama));
  llama.shape.model.key_value_heads = 2;
  keys.insert(ShapeKey(llama));
  llama.shape.model.head_size = 64;
  keys.insert(ShapeKey(llama));
  CHECK(keys.size() == 10);
  llama.shape.model.tied_head = !llama.shape.model.tied_head;  // the same work either way
  keys.insert(ShapeKey(llama));
  CHECK(keys.size() == 10);
}

TEST_CASE("devices share a processor when a chain of shared cores joins them") {
  CHECK(SharedProcessors({{"h", {0, 1}}, {"h", {2, 3}}, {"h", {1, 2}}, {"i", {0}}, {"h", {}}}) ==
        std::vector<int>{0, 0, 0, 1, 2});
}

TEST_CASE("processors are the connected parts of the graph of shared cores") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{300}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<HeldCores> devices(1 + random() % 8);
  for (HeldCores& device : devices) {
    device.host = random() % 2 == 0 ? "h" : "i";
    for (size_t k = random() % 3; k > 0; --k) device.cores.push_back(static_cast<uint32_t>(random() % 8));
  }
  const auto meet = [&](size_t a, size_t b) {
    const std::set<uint32_t> cores(devices[a].cores.begin(), devices[a].cores.end());
    bool shared = a == b;
    for (const uint32_t core : devices[b].cores) shared = shared || cores.count(core) > 0;
    return shared && devices[a].host == devices[b].host;
  };
  // Reachability by Warshall's closure.
  const size_t n = devices.size();
  std::vector<std::vector<bool>> joined(n, std::vector<bool>(n));
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = 0; b < n; ++b) joined[a][b] = meet(a, b);
  }
  for (size_t k = 0; k < n; ++k) {
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < n; ++b) joined[a][b] = joined[a][b] || (joined[a][k] && joined[k][b]);
    }
  }
  const std::vector<int> processors = SharedProcessors(devices);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = 0; b < n; ++b) CHECK((processors[a] == processors[b]) == joined[a][b]);
  }
}

TEST_CASE("a share of the width is another shape, told from a model that has fewer heads") {
  const TrainingSpec spec = Spec();
  const std::vector<ModelShare> shares = EvenShares(spec.shape.model, 2);
  CHECK(ShapeKey(WithShare(spec, shares[0])) ==
        "gpt2 hidden=256 heads=4x32 ff=512 vocabulary=128 sequence=256 precision=f32");
  // Where it lies changes nothing.
  CHECK(ShapeKey(WithShare(spec, shares[1])) == ShapeKey(WithShare(spec, shares[0])));
  CHECK(ShapeKey(WithShare(spec, WholeModel(spec.shape.model))) == ShapeKey(spec));
  TrainingSpec fewer = spec;
  fewer.shape.model.heads = 4;
  fewer.shape.model.feed_forward = 512;
  fewer.shape.model.vocabulary = 128;
  CHECK(ShapeKey(fewer) != ShapeKey(WithShare(spec, shares[0])));
}

TEST_CASE("what a pinned plan shares has to be measured with its shares, and may be with whole blocks") {
  Cluster cluster = ThreeNodes();
  cluster.profiles.clear();
  JobConstraints pinned;
  pinned.micro_batch_sizes = {1};
  pinned.plan = {.units = {{.devices = {"a/cpu0", "b/cpu0"}, .chunks = {{0, 4}}},
                           {.devices = {"c/cpu0"}, .chunks = {{4, 8}}}},
                 .routes = {{{0, 1}, 4, 1}}};
  const auto missing = MissingProfiles(Spec(), pinned, cluster);
  REQUIRE(missing.ok());
  const ModelShare half = EvenShares(Spec().shape.model, 2)[0];
  REQUIRE(missing->size() == 4);
  CHECK((*missing)[0].device_kind == "fast");
  CHECK_FALSE((*missing)[0].share.has_value());
  CHECK_FALSE((*missing)[0].needed);
  // b does without whole blocks, c does not.
  CHECK((*missing)[1].device_kind == "slow");
  CHECK((*missing)[1].needed);
  CHECK((*missing)[2].device_kind == "fast");
  CHECK((*missing)[2].share == half);
  CHECK((*missing)[2].needed);
  CHECK((*missing)[3].device == "b/cpu0");
  CHECK((*missing)[3].share == half);

  AddProfile(cluster, "slow", 0.04, 1, {1});
  const std::string shape = ShapeKey(WithShare(Spec(), half));
  for (const char* kind : {"fast", "slow"}) {
    AddProfile(cluster, kind, 0.02, 1, {1});
    cluster.profiles.back().shape = shape;
  }
  const auto problem = MakeProblem(Spec(), pinned, cluster);
  REQUIRE(problem.status().ToString() == "OK");
  CHECK(problem->devices[0].times.empty());
  REQUIRE(problem->devices[0].shares.size() == 1);
  CHECK(problem->devices[0].shares[0].share == half);
  CHECK(problem->devices[0].shares[0].times[0].layer.forward_seconds == Approx(0.02));
  // Four products where a head by itself has three.
  CHECK(problem->devices[0].shares[0].times[0].head.backward_seconds == Approx(0.01 * 4 / 3));
  CHECK(problem->devices[1].times[0].head.backward_seconds == Approx(0.02));
  CHECK(problem->devices[1].times.size() == 1);
  CHECK(problem->devices[1].shares.size() == 1);
  CHECK(problem->devices[2].shares.empty());
}

}  // namespace
}  // namespace medley
