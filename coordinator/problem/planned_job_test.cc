#include "coordinator/problem/planned_job.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "coordinator/problem/planning_problem.h"

namespace medley {
namespace {

TrainingSpec Spec() {
  TrainingSpec spec;
  spec.shape = {{2, 256, 8, 1024, 256, 512}, 256, 4};
  spec.precision = Precision::kBf16;
  return spec;
}

void AddNode(Cluster& cluster, const std::string& name, bool computes_bf16) {
  cluster.nodes.push_back({.name = name,
                           .devices = {{.description = {.name = "cpu0", .memory_limit = GiB(1)},
                                        .kind = name,
                                        .computes = {.bf16 = computes_bf16}}}});
  DeviceProfile& profile = cluster.profiles.emplace_back();
  profile.device_kind = name;
  profile.shape = ShapeKey(Spec());
  for (const int size : {1, 2, 4}) {
    profile.times.push_back({.micro_batch_sequences = size, .blocks = {.layer = {1.0 * size, 2.0 * size}}});
  }
}

Cluster TwoNodes() {
  Cluster cluster;
  AddNode(cluster, "new", true);
  AddNode(cluster, "old", false);
  cluster.default_link = {LinkModel::Line(0, 1e9), LinkModel::Line(0, 1e9)};
  return cluster;
}

JobConstraints Pinned() {
  JobConstraints constraints;
  constraints.devices = {"new/cpu0", "old/cpu0"};
  constraints.micro_batch_sizes = {1};
  constraints.plan = {
      .units = {{.devices = {"new/cpu0"}, .chunks = {{0, 2}}}, {.devices = {"old/cpu0"}, .chunks = {{2, 4}}}},
      .routes = {{.units = {0, 1}, .micro_batches = 4, .micro_batch_sequences = 1}}};
  constraints.open_activations = {0, 1};
  return constraints;
}

TEST_CASE("a plan that is stopped while it is compared with others stands without the comparison") {
  std::atomic<bool> stop = true;
  const auto stopped = PlanJob(Spec(), Pinned(), TwoNodes(), Comparison::kOtherKinds, {}, {.stop = &stop});
  REQUIRE(stopped.status().ToString() == "OK");
  CHECK_FALSE(stopped->report.compared);
  CHECK(stopped->report.explanation.rejected.empty());
  CHECK(stopped->report.explanation.step_seconds > 0);
  CHECK(
      absl::IsCancelled(ComparePlan(stopped->plan, Spec(), Pinned(), TwoNodes(), {.stop = &stop}).status()));
  CHECK(absl::IsCancelled(PlanJob(Spec(), {}, TwoNodes(), Comparison::kNone, {}, {.stop = &stop}).status()));

  stop = false;
  const auto whole = PlanJob(Spec(), Pinned(), TwoNodes(), Comparison::kOtherKinds, {}, {.stop = &stop});
  REQUIRE(whole.status().ToString() == "OK");
  CHECK(whole->report.compared);
}

TEST_CASE("a plan is chosen for its cost, under limits, and told with its price and what else there is") {
  Cluster cluster = TwoNodes();
  cluster.nodes[0].devices[0].price_per_hour = 4;
  cluster.nodes[1].devices[0].price_per_hour = 1;
  TrainingSpec spec = Spec();
  spec.steps = 100;
  JobConstraints constraints;
  const auto fastest = PlanJob(spec, constraints, cluster, Comparison::kNone, {}, {}, ParetoListing::kWanted);
  REQUIRE(fastest.status().ToString() == "OK");
  CHECK(fastest->report.price_per_hour == 5);
  CHECK(fastest->report.steps == 100);
  REQUIRE(fastest->report.pareto.size() == 2);
  CHECK(fastest->report.pareto[0].plan == fastest->plan);
  CHECK(fastest->report.pareto[0].devices_by_kind == std::map<std::string, int>{{"new", 1}, {"old", 1}});
  CHECK(fastest->report.pareto[1].price_per_hour == 1);
  CHECK_FALSE(fastest->report.pareto[1].bottleneck.empty());

  constraints.objective = Objective::kCost;
  const auto cheapest = PlanJob(spec, constraints, cluster, Comparison::kNone);
  REQUIRE(cheapest.status().ToString() == "OK");
  CHECK(DevicesOf(cheapest->plan) == std::vector<std::string>{"old/cpu0"});
  CHECK(cheapest->report.price_per_hour == 1);
  CHECK(cheapest->report.objective == Objective::kCost);
  constraints.deadline_seconds = 100 * fastest->prediction.step_seconds * 1.01;
  CHECK(PlanJob(spec, constraints, cluster, Comparison::kNone)->plan == fastest->plan);

  CHECK(
      absl::IsResourceExhausted(PlanJob(spec, {.deadline_seconds = 1}, cluster, Comparison::kNone).status()));
  // One that has begun is late, and gets the fastest whatever it costs.
  const auto late = PlanJob(spec, constraints, cluster, Comparison::kNone, {}, {}, ParetoListing::kIfNeeded,
                            {.plan = cheapest->plan, .steps = 10, .seconds = constraints.deadline_seconds});
  REQUIRE(late.status().ToString() == "OK");
  CHECK(late->plan == fastest->plan);
  CHECK(late->report.objective == Objective::kThroughput);
  CHECK_THAT(late->late, Catch::Contains("for 90 more steps"));
  CHECK(fastest->late.empty());

  constraints = {.most_price_per_hour = 4.5};
  CHECK(PlanJob(spec, constraints, cluster, Comparison::kNone)->report.price_per_hour <= 4.5);
  constraints = {.most_devices = 1};
  CHECK(PlanJob(spec, constraints, cluster, Comparison::kNone)->plan.units.size() == 1);
  constraints = {.most_price_per_hour = 0.5};
  CHECK(PlanJob(spec, constraints, cluster, Comparison::kNone).status().message() ==
        "constraints.most_price_per_hour: 0.5; nothing fits for so little, the cheapest plan that was found "
        "costs 1 an "
        "hour");

  const auto pinned = PlanJob(spec, Pinned(), cluster, Comparison::kNone);
  REQUIRE(pinned.status().ToString() == "OK");
  CHECK(pinned->report.price_per_hour == 5);
  CHECK(absl::IsInvalidArgument(
      PlanJob(spec, Pinned(), cluster, Comparison::kNone, {}, {}, ParetoListing::kWanted).status()));
}

TEST_CASE("it is known which devices are the only ones in use of their host") {
  Cluster cluster = TwoNodes();
  const auto apart = PlanJob(Spec(), Pinned(), cluster, Comparison::kNone);
  REQUIRE(apart.status().ToString() == "OK");
  CHECK(apart->alone_on_host == std::set<std::string>{"new/cpu0", "old/cpu0"});
  for (ClusterNode& node : cluster.nodes) node.host = "box";
  const auto together = PlanJob(Spec(), Pinned(), cluster, Comparison::kNone);
  REQUIRE(together.status().ToString() == "OK");
  CHECK(together->alone_on_host.empty());
  const auto one = PlanJob(Spec(), {.most_devices = 1}, cluster, Comparison::kNone);
  REQUIRE(one.status().ToString() == "OK");
  REQUIRE(DevicesOf(one->plan).size() == 1);
  CHECK(one->alone_on_host == std::set<std::string>{DevicesOf(one->plan)[0]});
}

LinkCost Way(double bytes_per_second) {
  return {LinkModel::Line(0, bytes_per_second), LinkModel::Line(0, bytes_per_second)};
}

// A device at each, all alike.
Cluster AtSites(const std::vector<std::string>& sites) {
  Cluster cluster;
  AddNode(cluster, "new", true);
  const ClusterNode node = cluster.nodes[0];
  cluster.nodes.clear();
  for (const std::string& site : sites) {
    cluster.nodes.push_back(node);
    cluster.nodes.back().name = cluster.nodes.back().site = site;
  }
  return cluster;
}

TEST_CASE("of three sites those two are planned for that a fast way joins") {
  const std::vector<std::string> sites = {"north", "south", "west"};
  for (size_t left_out = 0; left_out < sites.size(); ++left_out) {
    CAPTURE(sites[left_out]);
    std::vector<std::string> joined = sites;
    joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(left_out));
    Cluster cluster = AtSites(sites);
    cluster.link_classes = {
        {.level = LinkLevel::kSites, .cost = Way(1e4)},
        {.level = LinkLevel::kSites, .cost = Way(1e9), .a_site = joined[1], .b_site = joined[0]}};
    const JobConstraints two{.most_devices = 2};
    const auto planned = PlanJob(Spec(), two, cluster, Comparison::kNone);
    REQUIRE(planned.status().ToString() == "OK");
    const std::vector<std::string> devices = DevicesOf(planned->plan);
    CHECK(std::set<std::string>(devices.begin(), devices.end()) ==
          std::set<std::string>{joined[0] + "/cpu0", joined[1] + "/cpu0"});
  }
}

TEST_CASE("messages between two of three sites take the time of the way between them") {
  constexpr double kSlow = 1e5, kFast = 1e9;
  Cluster cluster = AtSites({"north", "south", "west"}), fast = cluster, slow = cluster;
  fast.link_classes = {{.level = LinkLevel::kSites, .cost = Way(kFast)}};
  slow.link_classes = {{.level = LinkLevel::kSites, .cost = Way(kSlow)}};
  cluster.link_classes = fast.link_classes;
  cluster.link_classes.push_back(
      {.level = LinkLevel::kSites, .cost = Way(kSlow), .a_site = "west", .b_site = "north"});
  const auto step_seconds = [](const Cluster& of, const std::string& first, const std::string& second) {
    JobConstraints pinned = Pinned();
    pinned.devices = {first + "/cpu0", second + "/cpu0"};
    for (size_t unit = 0; unit < 2; ++unit) pinned.plan->units[unit].devices = {pinned.devices[unit]};
    const auto planned = PlanJob(Spec(), pinned, of, Comparison::kNone);
    REQUIRE(planned.status().ToString() == "OK");
    return planned->prediction.step_seconds;
  };
  CHECK(step_seconds(cluster, "north", "south") == Approx(step_seconds(fast, "north", "south")));
  CHECK(step_seconds(cluster, "south", "west") == Approx(step_seconds(fast, "south", "west")));
  CHECK(step_seconds(cluster, "north", "west") == Approx(step_seconds(slow, "north", "west")));
  // At least the first activation and the last gradient, of 2 bytes an element, are waited for.
  const double message_seconds = 256 * 256 * 2 / kSlow;
  CHECK(step_seconds(cluster, "north", "west") >
        step_seconds(cluster, "north", "south") + 1.9 * message_seconds);
}

TEST_CASE("in a bf16 job devices that compute it store activations in it, unless the plan says otherwise") {
  const auto chosen = PlanJob(Spec(), {}, TwoNodes(), Comparison::kNone);
  REQUIRE(chosen.status().ToString() == "OK");
  CHECK(chosen->passes_as_profiled);
  REQUIRE(chosen->plan.units.size() == 2);
  for (const Unit& unit : chosen->plan.units)
    CHECK(unit.activations == (unit.devices[0] == "new/cpu0" ? Dtype::kBf16 : Dtype::kF32));

  JobConstraints pinned = Pinned();
  const auto open = PlanJob(Spec(), pinned, TwoNodes(), Comparison::kNone);
  REQUIRE(open.status().ToString() == "OK");
  CHECK(open->plan.units[0].activations == Dtype::kBf16);
  CHECK(open->plan.units[1].activations == Dtype::kF32);
  CHECK(open->passes_as_profiled);

  pinned.open_activations = {1};
  const auto said = PlanJob(Spec(), pinned, TwoNodes(), Comparison::kNone);
  REQUIRE(said.status().ToString() == "OK");
  CHECK(said->plan.units[0].activations == Dtype::kF32);
  CHECK(!said->passes_as_profiled);

  TrainingSpec f32 = Spec();
  f32.precision = Precision::kF32;
  Cluster cluster = TwoNodes();
  for (DeviceProfile& profile : cluster.profiles) profile.shape = ShapeKey(f32);
  const auto in_f32 = PlanJob(f32, Pinned(), cluster, Comparison::kNone);
  REQUIRE(in_f32.status().ToString() == "OK");
  CHECK(in_f32->plan.units[0].activations == Dtype::kF32);
}

TEST_CASE("devices that are in use beside each other go by what was measured of hosts like theirs") {
  Cluster cluster = TwoNodes();
  for (ClusterNode& node : cluster.nodes) {
    node.devices.push_back(node.devices[0]);
    node.devices[1].description.name = "cpu1";
    for (ClusterDevice& device : node.devices) device.kind = "new";
  }
  cluster.slowdowns = {{.host = "old",
                        .shape = ShapeKey(Spec()),
                        .devices = {{"old/cpu0", "new", 1.2, 1.5}, {"old/cpu1", "new", 1.4, 1.5}},
                        .measured_at_seconds = 7}};
  for (SharedSlowdown& shared : cluster.slowdowns[0].devices)
    shared.corrections = {{TimeClass::kPasses, {.factor = 1.1}}};
  JobConstraints constraints = Pinned();
  constraints.devices.clear();
  const std::string second = GENERATE(as<std::string>(), "new/cpu1", "old/cpu0");
  CAPTURE(second);
  constraints.plan->units[1].devices = {second};
  const auto planned = PlanJob(Spec(), constraints, cluster, Comparison::kNone);
  REQUIRE(planned.status().ToString() == "OK");
  if (second == "old/cpu0") {  // each alone on its host
    CHECK(planned->slowdowns.empty());
    return;
  }
  REQUIRE(planned->slowdowns.size() == 2);
  for (const auto& [device, slowdown] : planned->slowdowns) {
    CHECK(device.starts_with("new/"));
    CHECK(slowdown.device_kind == "new");
    CHECK(slowdown.host == "old");
    CHECK(slowdown.measured_at_seconds == 7);
    CHECK(slowdown.passes.measured == Approx(1.3));
    CHECK(slowdown.passes.planned == Approx(1.43));
    CHECK(slowdown.updates.measured == Approx(1.5));
    CHECK(slowdown.updates.planned == Approx(1.5));
  }
}

TEST_CASE("an order that was chosen can be pinned as it is, and is predicted alike") {
  Cluster cluster = TwoNodes();
  for (DeviceProfile& profile : cluster.profiles) {
    for (ProfiledTimes& times : profile.times)
      times.blocks.layer.weight_gradient_seconds = times.micro_batch_sequences;
  }
  JobConstraints constraints = {.micro_batch_sizes = {1}, .max_routes = 1};
  const auto chosen = PlanJob(Spec(), constraints, cluster, Comparison::kOtherKinds);
  REQUIRE(chosen.status().ToString() == "OK");
  REQUIRE(chosen->plan.schedule == Schedule::kListed);
  CHECK_THAT(chosen->report.explanation.orders, Catch::Contains("% faster than"));
  CHECK_THAT(FormatExplanation(chosen->report.explanation), Catch::Contains("Order       synthesised"));
  CHECK_FALSE(chosen->report.proven_optimal);
  constraints.schedules = {Schedule::kOneForwardOneBackward};
  const auto named = PlanJob(Spec(), constraints, cluster, Comparison::kNone);
  REQUIRE(named.status().ToString() == "OK");
  CHECK(named->report.explanation.orders.empty());
  CHECK(named->prediction.step_seconds > chosen->prediction.step_seconds * 1.005);
  const auto pinned =
      PlanJob(Spec(), {.micro_batch_sizes = {1}, .plan = chosen->plan}, cluster, Comparison::kNone);
  REQUIRE(pinned.status().ToString() == "OK");
  CHECK(pinned->plan == chosen->plan);
  CHECK(pinned->prediction.step_seconds == chosen->prediction.step_seconds);
}

// A node with two devices alike, measured with whole blocks in `layer_seconds` a window, and with the shares of
// `shares` in half of that.
Cluster NodeOfTwo(const TrainingSpec& spec, const std::vector<ModelShare>& shares, double layer_seconds) {
  Cluster cluster;
  ClusterNode& node = cluster.nodes.emplace_back();
  node.name = "n";
  for (const char* name : {"gpu0", "gpu1"})
    node.devices.push_back({.description = {.name = name, .memory_limit = GiB(1)}, .kind = "gpu"});
  const auto add = [&](const std::string& shape, double seconds, const std::string& provenance) {
    DeviceProfile& profile = cluster.profiles.emplace_back();
    profile.device_kind = "gpu";
    profile.shape = shape;
    profile.provenance = provenance;
    profile.workspace = Bytes{provenance == "whole" ? 1000 : 600};
    for (const int size : {1, 2, 4}) {
      profile.times.push_back(
          {.micro_batch_sequences = size, .blocks = {.layer = {seconds * size, 2 * seconds * size}}});
    }
  };
  add(ShapeKey(spec), layer_seconds, "whole");
  for (const ModelShare& share : shares) add(ShapeKey(WithShare(spec, share)), layer_seconds / 2, "share");
  cluster.default_link = {LinkModel::Line(0, 1e9), LinkModel::Line(0, 1e9)};
  return cluster;
}

JobConstraints PinnedUnit(std::vector<ModelShare> shares) {
  JobConstraints constraints;
  constraints.devices = {"n/gpu0", "n/gpu1"};
  constraints.micro_batch_sizes = {1, 2};
  constraints.plan = {
      .units = {{.devices = {"n/gpu0", "n/gpu1"}, .chunks = {{0, 4}}, .shares = std::move(shares)}},
      .routes = {{.units = {0}, .micro_batches = 2, .micro_batch_sequences = 1},
                 {.units = {0}, .micro_batches = 1, .micro_batch_sequences = 2}}};
  return constraints;
}

TEST_CASE("a pinned unit of two on two routes is predicted by what was measured of its shares") {
  TrainingSpec spec = Spec();
  spec.precision = Precision::kF32;
  const std::vector<ModelShare> even = EvenShares(spec.shape.model, 2);
  const Cluster cluster = NodeOfTwo(spec, {even[0]}, 1);
  const auto planned = PlanJob(spec, PinnedUnit({}), cluster, Comparison::kOtherKinds);
  REQUIRE(planned.status().ToString() == "OK");
  // Four windows through two layers, a second and a half each, and no time for bytes to speak of.
  CHECK(planned->prediction.step_seconds == Approx(4 * 2 * 1.5).epsilon(0.01));
  CHECK(planned->prediction.step_seconds > 4 * 2 * 1.5);
  REQUIRE(planned->prediction.ranks.size() == 2);
  const RankPrediction& rank = planned->prediction.ranks[1];
  CHECK(rank.busy_seconds == Approx(4 * 2 * 1.5));
  CHECK(rank.peak_memory == rank.memory.total() + Bytes{600});
  CHECK_FALSE(planned->passes_as_profiled);
  // Activations of two sizes, and the statistics of the logits of two sizes.
  REQUIRE(planned->reductions.size() == 4);
  for (const ReductionChoice& sum : planned->reductions) CHECK(sum.holders == std::vector<Rank>{0, 1});

  const Explanation& explanation = planned->report.explanation;
  CHECK_THAT(explanation.summary, Catch::Contains("n/gpu0+n/gpu1 blocks 0-3"));
  CHECK_THAT(explanation.exchanges, Catch::StartsWith("n/gpu0+n/gpu1 sum and give each other"));
  CHECK(explanation.devices[0].micro_batches == 3);
  CHECK(explanation.rejected.size() == 6);
  REQUIRE(planned->report.profiles.size() == 1);
  CHECK(planned->report.profiles[0].provenance == "share");
  CHECK(planned->report.profiles[0].share ==
        "4 of 8 key-value heads, 512 of 1024 columns, 128 of 256 vocabulary rows");

  // Without whole blocks it has nothing to be compared with, and is what it is.
  Cluster shares_only = cluster;
  shares_only.profiles.erase(shares_only.profiles.begin());
  const auto alone = PlanJob(spec, PinnedUnit({}), shares_only, Comparison::kOtherKinds);
  REQUIRE(alone.status().ToString() == "OK");
  CHECK(alone->prediction.step_seconds == planned->prediction.step_seconds);
  REQUIRE(alone->report.explanation.rejected.size() == 6);
  CHECK(alone->report.explanation.rejected[0].why_slower == "no device was measured with whole blocks");
}

TEST_CASE("a pinned unit's uneven shares each have their own profile") {
  TrainingSpec spec = Spec();
  spec.precision = Precision::kF32;
  const std::vector<ModelShare> uneven = {{{0, 6}, {0, 768}, {0, 192}}, {{6, 8}, {768, 1024}, {192, 256}}};
  const auto missing = PlanJob(spec, PinnedUnit(uneven), NodeOfTwo(spec, {uneven[0]}, 1), Comparison::kNone);
  CHECK(absl::IsFailedPrecondition(missing.status()));
  CHECK_THAT(
      std::string(missing.status().message()),
      Catch::Contains("\"gpt2 hidden=256 heads=2x32 ff=256 vocabulary=64 sequence=256 precision=f32\" of "
                      "device kind \"gpu\" (n/gpu1) with micro-batches of 1, 2"));
  const auto planned = PlanJob(spec, PinnedUnit(uneven), NodeOfTwo(spec, uneven, 1), Comparison::kNone);
  REQUIRE(planned.status().ToString() == "OK");
  CHECK(planned->report.profiles.size() == 2);
  CHECK_THAT(planned->report.explanation.summary, Catch::Contains("in shares of 6:2 heads, 768:256 columns"));
  CHECK(planned->prediction.ranks[1].memory.parameters < planned->prediction.ranks[0].memory.parameters);
}

TEST_CASE("what a pinned unit of several devices cannot be is refused by field, value and what is allowed") {
  TrainingSpec spec = Spec();
  spec.precision = Precision::kF32;
  const Cluster cluster = NodeOfTwo(spec, {EvenShares(spec.shape.model, 2)[0]}, 1);
  const auto refusal = [&](std::vector<ModelShare> shares) {
    return std::string(
        PlanJob(spec, PinnedUnit(std::move(shares)), cluster, Comparison::kNone).status().message());
  };
  CHECK(refusal({{{0, 8}, {0, 1024}, {0, 256}}}) == "plan: units[0].shares: there are 1 for 2 devices");
  TrainingSpec one_head = spec;
  one_head.shape.model.heads = 1;
  const auto heads = PlanJob(one_head, PinnedUnit({}), NodeOfTwo(one_head, {}, 1), Comparison::kNone);
  CHECK(heads.status().message() == "plan: units[0].devices: 2; the model has 1 heads, so at most 1");
  Cluster small = cluster;
  small.nodes[0].devices[1].description.memory_limit = MiB(1);
  CHECK_THAT(std::string(PlanJob(spec, PinnedUnit({}), small, Comparison::kNone).status().message()),
             Catch::StartsWith("plan: units[0]: needs ") &&
                 Catch::Contains(" on n/gpu1, which allows 1.0 MiB: parameters ") &&
                 Catch::Contains("; units[0] would fit with no single change of recompute, "));
}

TEST_CASE("layers in host memory are refused where the host has too little, and shown beside what it has") {
  TrainingSpec spec = Spec();
  spec.precision = Precision::kF32;
  Cluster cluster = NodeOfTwo(spec, {EvenShares(spec.shape.model, 2)[0]}, 1);
  for (DeviceProfile& profile : cluster.profiles)
    profile.fetch_bytes_per_second = profile.store_bytes_per_second = 1e9;
  JobConstraints pinned = PinnedUnit({});
  pinned.plan->units[0].window_layers = 1;
  const auto unknown = PlanJob(spec, pinned, cluster, Comparison::kNone);
  REQUIRE(unknown.status().ToString() == "OK");
  const Bytes of_one = unknown->prediction.ranks[0].memory.host;
  REQUIRE(of_one > Bytes{0});
  for (const Explanation::Device& device : unknown->report.explanation.devices) {
    CHECK(device.memory.host == of_one);
    CHECK(device.memory.windows.total() > Bytes{0});
    CHECK(device.host_memory == Bytes{0});
  }
  // Both devices are of the node, and each has as much there.
  cluster.nodes[0].host_memory = 2 * of_one;
  const auto known = PlanJob(spec, pinned, cluster, Comparison::kNone);
  REQUIRE(known.status().ToString() == "OK");
  for (const Explanation::Device& device : known->report.explanation.devices)
    CHECK(device.host_memory == 2 * of_one);
  cluster.nodes[0].host_memory = 2 * of_one - Bytes{1};
  CHECK_THAT(std::string(PlanJob(spec, pinned, cluster, Comparison::kNone).status().message()),
             Catch::StartsWith("plan: units[0].window_layers: 1 keeps ") &&
                 Catch::Contains("; the host of n needs ") &&
                 Catch::Contains(" of its memory for layers and activations, and has "));
}

TEST_CASE("a job that does not fit as it is gets a plan that needs less, and is told so") {
  TrainingSpec spec = Spec();
  spec.precision = Precision::kF32;
  Cluster cluster = NodeOfTwo(spec, {}, 1);
  std::string fitting;
  const auto nothing_fits = [&] { return fitting.rfind("nothing fits", 0) == 0; };
  for (Bytes memory = GiB(1); !nothing_fits(); memory = Bytes{memory.value * 19 / 20}) {
    for (ClusterDevice& device : cluster.nodes[0].devices) device.description.memory_limit = memory;
    const auto planned = PlanJob(spec, {}, cluster, Comparison::kNone);
    REQUIRE(planned.status().ToString() == "OK");
    fitting = planned->report.explanation.fitting;
    for (const RankPrediction& rank : planned->prediction.ranks) CHECK(rank.peak_memory <= memory);
    if (fitting.empty()) continue;
    CHECK_FALSE(planned->report.proven_optimal);
    CHECK_THAT(FormatExplanation(planned->report.explanation), Catch::Contains("Fitting     "));
  }
  CHECK_THAT(fitting, Catch::Contains("saves "));
}

}  // namespace
}  // namespace medley
