// Plans next to a plan, what would help, and what each kind of device has of it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/plan_variations.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

constexpr double kPassSeconds = 1;

// Hosts of two devices each, all alike, which were measured with whole blocks and with half of their width.
PlanningProblem Hosts(int hosts) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = 4, .hidden = 64, .heads = 4, .feed_forward = 256, .vocabulary = 100, .context = 16};
  problem.shape.sequence = 16;
  problem.shape.global_batch_sequences = 24;
  problem.micro_batch_sizes = {1};
  std::vector<int> ends, numbers;
  for (int d = 0; d < 2 * hosts; ++d) {
    DeviceCost& device = problem.devices.emplace_back();
    device.name = absl::StrCat("h", d / 2, "/", d % 2);
    device.kind = "alike";
    device.processor = d;
    device.host = d / 2;
    device.room.memory = GiB(1);
    const auto times = [](double part) {
      const double pass = part * kPassSeconds;
      return std::vector<BlockTimes>{{{}, {pass, 2 * pass, pass}, {}}};
    };
    device.times = times(1);
    for (const ModelShare& share : EvenShares(problem.shape.model, 2)) {
      if (device.shares.empty() || device.shares.front().share != AtOrigin(share))
        device.shares.push_back({.share = AtOrigin(share), .room = device.room, .times = times(0.5)});
    }
    ends.push_back(0);
    numbers.push_back(d / 2);
  }
  problem.links = DeviceLinks(ends, numbers, 1);
  const LinkModel within = LinkModel::Line(0, 1e9), between = LinkModel::Line(0, 1e7);
  problem.links.SetWithinHosts(0, 0, {within, within});
  problem.links.SetBetweenHosts(0, 0, {between, between});
  return problem;
}

// Two routes, one on each host, of two stages of two layers.
Plan TwoPipelines() {
  Plan plan;
  for (int host = 0; host < 2; ++host) {
    plan.units.push_back({{absl::StrCat("h", host, "/0")}, {{0, 3}}});
    plan.units.push_back({{absl::StrCat("h", host, "/1")}, {{3, 6}}});
    plan.routes.push_back({{2 * host, 2 * host + 1}, 12, 1});
  }
  return plan;
}

void CheckValid(const PlanningProblem& problem, const Plan& plan) {
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, SiteOf(problem)))
    FAIL_CHECK(violation.detail);
  CHECK(SequencesOf(plan) == problem.shape.global_batch_sequences);
}

TEST_CASE("neighbouring stages of a host become one unit of twice the degree, and so do replicas") {
  const PlanningProblem problem = Hosts(2);
  const absl::StatusOr<Plan> shared = WithMoreTensorParallelism(problem, TwoPipelines());
  REQUIRE(shared.status().ToString() == "OK");
  CheckValid(problem, *shared);
  REQUIRE(shared->units.size() == 2);
  CHECK(shared->units[1].devices.size() == 2);
  CHECK(shared->units[1].chunks[0] == BlockRange{0, 6});

  Plan replicas;
  for (int d = 0; d < 4; ++d) {
    replicas.units.push_back({{problem.devices[d].name}, {{0, 6}}});
    replicas.routes.push_back({{d}, d < 2 ? 8 : 4, 1});
  }
  const absl::StatusOr<Plan> paired = WithMoreTensorParallelism(problem, replicas);
  REQUIRE(paired.status().ToString() == "OK");
  CheckValid(problem, *paired);
  REQUIRE(paired->routes.size() == 2);
  CHECK(paired->routes[0].micro_batches == 16);
  // Of four devices a host has none.
  CHECK_THAT(std::string(WithMoreTensorParallelism(problem, *paired).status().message()),
             Catch::Contains("no two alike devices of a host"));
  PlanningProblem unmeasured = problem;
  for (DeviceCost& device : unmeasured.devices) device.shares.clear();
  CHECK_THAT(std::string(WithMoreTensorParallelism(unmeasured, replicas).status().message()),
             Catch::Contains("h0/0 was not measured with a share of the width among 2 devices"));
}

TEST_CASE("plans with sharded parameters are valid, and replicas of them get micro-batches by speed") {
  PlanningProblem problem = Hosts(2);
  const absl::StatusOr<Plan> sharded = WithShardedParameters(problem, TwoPipelines());
  REQUIRE(sharded.status().ToString() == "OK");
  CheckValid(problem, *sharded);
  CHECK(sharded->units[0].lives_on_peers());
  for (const int slow : {2, 3}) {
    for (const auto seconds : kAllPassTimes) problem.devices[slow].times[0].layer.*seconds *= 3;
  }
  const absl::StatusOr<Plan> replicas = FullyShardedReplicas(problem, 1);
  REQUIRE(replicas.status().ToString() == "OK");
  CheckValid(problem, *replicas);
  REQUIRE(replicas->routes.size() == 4);
  CHECK(replicas->routes[0].micro_batches == 9);
  CHECK(replicas->routes[3].micro_batches == 3);
  CHECK(PredictStepSeconds(problem, *replicas).ok());
  problem.shape.global_batch_sequences = 3;
  CHECK_THAT(std::string(FullyShardedReplicas(problem, 1).status().message()),
             Catch::Contains("3 micro-batches for 4 devices"));
  problem.shape.global_batch_sequences = 1;
  CHECK_THAT(std::string(FullyShardedReplicas(problem, 1).status().message()),
             Catch::Contains("there is 1 micro-batch for 4 devices"));
}

TEST_CASE("one route of an even split is told as one") {
  PlanningProblem problem = Hosts(1);
  problem.shape.global_batch_sequences = 1;  // which no two routes can share
  CHECK_THAT(EvenSplitOfMany(problem).description, Catch::Contains("1 route of "));
}

TEST_CASE("many devices share parameters, too, where larger micro-batches fit so and are faster") {
  PlanningProblem problem = Hosts(10);
  problem.constraints.saves_memory = true;
  problem.shape.global_batch_sequences = 40;
  problem.micro_batch_sizes = {1, 2};
  for (DeviceCost& device : problem.devices) {
    device.shares.clear();
    // Two sequences at once take little longer than one.
    device.times.push_back(device.times[0]);
    for (const auto seconds : kAllPassTimes) device.times[1].layer.*seconds *= 1.2;
  }
  const absl::StatusOr<Plan> sharded = FullyShardedReplicas(problem, 2);
  REQUIRE(sharded.status().ToString() == "OK");
  Plan whole = *sharded;
  whole.schedule = Schedule::kOneForwardOneBackward;
  for (Unit& unit : whole.units) {
    unit.layers_home = LayersHome::kHost;
    unit.window_layers = 0;
  }
  whole.shards_optimizer = true;
  Bytes needed;
  RankMemories memories(*sharded, problem.shape);
  for (Rank rank = 0; rank < RankCount(*sharded); ++rank)
    needed = std::max(needed, memories.Of(rank).total());
  REQUIRE(RankMemories(whole, problem.shape).Of(0).total() > needed);
  for (DeviceCost& device : problem.devices) device.room.memory = needed;
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CheckValid(problem, chosen->plan);
  CHECK(FitsMemory(problem, chosen->plan));
  CHECK(chosen->plan.units[0].lives_on_peers());
  CHECK_THAT(chosen->fitting, Catch::Contains("gradients and parameters of layers"));
  CHECK(chosen->step_seconds == Approx(PredictStepSeconds(problem, chosen->plan).value()).epsilon(0.01));
  // What is proven of plans by classes is not of these.
  CHECK(chosen->lower_bound_seconds <= chosen->step_seconds);
  CHECK_FALSE(chosen->bound_under_1f1b_alone);
}

TEST_CASE("an even grid splits devices, blocks and micro-batches as evenly as can be") {
  const PlanningProblem problem = Hosts(5);
  const absl::StatusOr<Plan> grid = EvenGrid(problem, 2, 2, 1);
  REQUIRE(grid.status().ToString() == "OK");
  CheckValid(problem, *grid);
  CHECK(grid->routes.size() == 2);  // two devices are left
  CHECK(EvenGrid(problem, 3, 1, 1)->routes.size() == 3);
  CHECK(!EvenGrid(problem, 7, 1, 1).ok());
  CHECK(!EvenGrid(problem, 1, 8, 1).ok());
}

TEST_CASE("a plan is held against those next to it, whether devices are few or many") {
  for (const int hosts : {2, 9}) {
    INFO(hosts << " hosts");
    const PlanningProblem problem = Hosts(hosts);
    const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
    REQUIRE(chosen.status().ToString() == "OK");
    const absl::StatusOr<Explanation> explanation = ExplainAndCompare(problem, chosen->plan);
    REQUIRE(explanation.status().ToString() == "OK");
    // By what its busiest device or what takes longest beside it, of many devices, too.
    for (const Explanation::Rejected& rejected : explanation->rejected) {
      if (rejected.step_seconds > 0) {
        CHECK_THAT(rejected.why_slower,
                   Catch::Contains("would be busy") || Catch::Contains("; the busiest device computes for"));
      }
    }
    const auto has = [&](PlanKind kind) {
      return std::any_of(explanation->rejected.begin(), explanation->rejected.end(),
                         [&](const Explanation::Rejected& rejected) {
                           return rejected.kind == kind && !rejected.why_slower.empty();
                         });
    };
    // Alike devices may be split evenly.
    if (hosts > 2) CHECK(has(PlanKind::kEqualSplit));
    CHECK(has(PlanKind::kMoreTensorParallelism));
    CHECK(has(PlanKind::kShardedParameters));
    REQUIRE(explanation->kinds.size() == 1);
    CHECK(explanation->kinds[0].devices == 2 * hosts);
    CHECK(explanation->kinds[0].work_share == Approx(1));
  }
}

TEST_CASE(
    "plans that a plan is held against are of what the constraints allow, whether devices are few or many") {
  for (const int hosts : {2, 9}) {
    const PlanningProblem problem = Hosts(hosts);
    const auto why_none = [&](PlanKind kind, const PlanConstraints& constraints) {
      PlanningProblem constrained = problem;
      constrained.constraints = constraints;
      const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(constrained);
      REQUIRE(chosen.status().ToString() == "OK");
      const absl::StatusOr<Explanation> explanation = ExplainAndCompare(constrained, chosen->plan);
      REQUIRE(explanation.status().ToString() == "OK");
      for (const Explanation::Rejected& rejected : explanation->rejected) {
        if (rejected.kind == kind && rejected.description == "none") return rejected.why_slower;
      }
      return std::string();
    };
    INFO(hosts << " hosts");
    CHECK_THAT(why_none(PlanKind::kEqualSplit, {.most_devices = 2}),
               Catch::Contains("constraints.most_devices allows 2, and it has"));
    CHECK(!why_none(PlanKind::kShardedParameters, {.most_devices = 1}).empty());
    CHECK(!why_none(PlanKind::kShardedParameters, {.max_routes = 1}).empty());
    CHECK(!why_none(PlanKind::kShardedParameters, {.schedules = {Schedule::kOneForwardOneBackward}}).empty());
    PlanningProblem one_stage = problem;
    one_stage.constraints.max_stages = 1;
    CHECK(ConstraintObjection(one_stage, TwoPipelines()) == "constraints.max_stages allows 1, and it has 2");
  }
}

std::vector<Explanation::Help> HelpsOf(const PlanningProblem& problem, const Plan& plan) {
  // Plans of other kinds, which nobody looks at here, need not be the best.
  const SearchLimits limits = {.max_simulations = 2000, .max_simulated_instructions = 300'000};
  const absl::StatusOr<Explanation> explanation = ExplainAndCompare(problem, plan, limits);
  REQUIRE(explanation.status().ToString() == "OK");
  return explanation->helps;
}

LinkCost Rate(double bytes_per_second) {
  return {LinkModel::Line(0, bytes_per_second), LinkModel::Line(0, bytes_per_second)};
}

TEST_CASE("what would help is the way between two sites, or what joins hosts at each of them") {
  // Two pipelines, each from the north to the south; a message takes 40 s by a link of 100 bytes a second, if it goes alone.
  PlanningProblem problem = OnDevices(Hosts(4), {0, 2, 4, 6});
  problem.site_names = {"south", "north"};
  for (const int d : {0, 1}) problem.devices[d].site = 1;
  Plan plan;
  for (int route = 0; route < 2; ++route) {
    plan.units.push_back({{problem.devices[route].name}, {{0, 3}}});
    plan.units.push_back({{problem.devices[route + 2].name}, {{3, 6}}});
    plan.routes.push_back({{2 * route, 2 * route + 1}, 12, 1});
  }
  const LinkCost slow = Rate(1e2), quick = Rate(1e7);
  problem.links = DeviceLinks({0, 0, 1, 1}, {0, 1, 2, 3}, 2);
  for (LinkCost& cost : problem.links.each()) cost = quick;
  problem.links.SetBetweenHosts(0, 1, slow);
  // All but 12 s of each micro-batch are messages, which go side by side by a way that gets twice as fast, too.
  const std::vector<Explanation::Help> between = HelpsOf(problem, plan);
  REQUIRE(!between.empty());
  CHECK(between[0].change == "twice the rate of links between north and south");
  CHECK_FALSE(between[0].planned_anew);
  CHECK(between[0].step_seconds < 0.7 * *PredictStepSeconds(problem, plan));
  // Likewise of racks of one site.
  PlanningProblem racks = problem;
  for (DeviceCost& device : racks.devices) std::swap(device.rack, device.site);
  const std::vector<Explanation::Help> between_racks = HelpsOf(racks, plan);
  REQUIRE(!between_racks.empty());
  CHECK(between_racks[0].change == "twice the rate of links between different racks");
  CHECK(between_racks[0].step_seconds == Approx(between[0].step_seconds));
  // Gradients of each stage are summed at one site.
  for (LinkCost& cost : problem.links.each()) cost = slow;
  problem.links.SetBetweenHosts(0, 1, quick);
  const std::vector<Explanation::Help> within = HelpsOf(problem, plan);
  REQUIRE(!within.empty());
  CHECK(within[0].change == "twice the rate of links between alike of different hosts at one site");
  for (const Explanation::Help& help : within) CHECK_THAT(help.change, !Catch::Contains("north"));
  // Of devices that reach all others alike, wherever these are, one pipeline crosses and sums nothing at one site.
  problem.links = DeviceLinks({0, 0, 0, 0}, {0, 1, 2, 3}, 1);
  problem.links.SetBetweenHosts(0, 0, slow);
  plan.units.resize(2);
  plan.routes = {{{0, 1}, 24, 1}};
  const std::vector<Explanation::Help> alike = HelpsOf(problem, plan);
  REQUIRE(!alike.empty());
  CHECK(alike[0].change == "twice the rate of links between north and south");
  for (const Explanation::Help& help : alike) CHECK_THAT(help.change, !Catch::Contains("at one site"));
}

TEST_CASE(
    "what was measured of a library is faster where all links of it are, and stays what it is where some "
    "are") {
  // Four replicas on two hosts.
  PlanningProblem problem = Hosts(2);
  for (DeviceCost& device : problem.devices) {
    device.has_own_memory = true;
    device.group_library = "NCCL 2.28.3";
  }
  Plan plan;
  for (int d = 0; d < 4; ++d) {
    plan.units.push_back({{problem.devices[d].name}, {{0, 6}}});
    plan.routes.push_back({{d}, 6, 1});
  }
  const auto changes = [&] {
    std::vector<std::string> told;
    for (const Explanation::Help& help : HelpsOf(problem, plan)) told.push_back(help.change);
    return told;
  };
  const std::string within = "twice the rate of links between alike of one host",
                    between = "twice the rate of links between alike of different hosts";
  // The library is far slower than the links, which do not sum in its place when some of them are faster yet.
  for (LinkCost& cost : problem.links.each()) {
    cost = Rate(1e12);
    cost.all_reduce = {{4, {{{0, 0}, {1e3, 1e3}}}}};
  }
  CHECK_THAT(changes(), !Catch::VectorContains(within) && !Catch::VectorContains(between));
  // Of a replica on each host all sums are between hosts, where the library is faster once what it takes there is known by itself.
  plan.units.clear();
  plan.routes.clear();
  for (int host = 0; host < 2; ++host) {
    plan.units.push_back({{problem.devices[2 * host].name}, {{0, 3}}});
    plan.units.push_back({{problem.devices[2 * host + 1].name}, {{3, 6}}});
    plan.routes.push_back({{2 * host, 2 * host + 1}, 12, 1});
  }
  CHECK_THAT(changes(), !Catch::VectorContains(between));
  LinkCost other = Rate(1e12);
  other.all_reduce = {{4, {{{0, 0}, {1e3, 2e3}}}}};
  problem.links.SetWithinHosts(0, 0, other);
  CHECK_THAT(changes(), Catch::VectorContains(between) && !Catch::VectorContains(within));
}

TEST_CASE("two hosts are named whose links alone bring what all of their sort do, and no others") {
  // A pipeline over three hosts, the first two of which are joined slowly: a message takes 41 s, and all passes of a micro-batch 12 s.
  PlanningProblem problem = OnDevices(Hosts(3), {0, 2, 4});
  problem.links = DeviceLinks(3, Rate(1e7));
  problem.links.Set(0, 1, Rate(1e2));
  Plan pipeline;
  for (int stage = 0; stage < 3; ++stage)
    pipeline.units.push_back({{problem.devices[stage].name}, {{2 * stage, 2 * stage + 2}}});
  pipeline.routes.push_back({{0, 1, 2}, 24, 1});
  const auto changes = [](const PlanningProblem& of, const Plan& plan) {
    std::vector<std::string> told;
    for (const Explanation::Help& help : HelpsOf(of, plan)) told.push_back(help.change);
    return told;
  };
  const std::string all = "twice the rate of links between alike of different hosts",
                    pair = "twice the rate of links between h0 and h1 alone";
  const std::vector<std::string> of_pipeline = changes(problem, pipeline);
  CHECK_THAT(of_pipeline, Catch::VectorContains(all) && Catch::VectorContains(pair));
  CHECK(of_pipeline.size() == 2);
  // Likewise of nodes that are one machine, whose devices reach all others alike.
  PlanningProblem pairs = OnDevices(Hosts(3), {0, 1, 2, 4});
  pairs.devices[1].name = "g0/1";
  pairs.links = DeviceLinks({0, 0, 1, 2}, {0, 0, 1, 2}, 3);
  for (LinkCost& cost : pairs.links.each()) cost = Rate(1e7);
  pairs.links.SetBetweenHosts(0, 1, Rate(1e2));
  CHECK_THAT(changes(pairs, pipeline),
             Catch::VectorContains(std::string("twice the rate of links between g0+h0 and h1 alone")));
  // Of four hosts, all joined slowly, that sum their gradients in a ring none is the one to mend.
  PlanningProblem alike = OnDevices(Hosts(4), {0, 2, 4, 6});
  alike.links.SetBetweenHosts(0, 0, Rate(1e4));
  Plan replicas;
  for (int d = 0; d < 4; ++d) {
    replicas.units.push_back({{alike.devices[d].name}, {{0, 6}}});
    replicas.routes.push_back({{d}, 6, 1});
  }
  CHECK(changes(alike, replicas) == std::vector<std::string>{all});
}

TEST_CASE(
    "two hosts of different sites are named where they are joined more slowly than the way between these") {
  PlanningProblem problem = OnDevices(Hosts(3), {0, 2, 4});
  problem.site_names = {"north", "south"};
  for (const int d : {1, 2}) problem.devices[d].site = 1;
  problem.links = DeviceLinks(3, Rate(1e7));
  problem.links.Set(0, 1, Rate(1e2));
  Plan plan;
  plan.units = {{{"h0/0"}, {{0, 3}}}, {{"h1/0"}, {{3, 6}}}};
  plan.routes = {{{0, 1}, 24, 1}};
  const auto names_pair = [&] {
    const std::vector<Explanation::Help> helps = HelpsOf(problem, plan);
    REQUIRE(!helps.empty());
    CHECK(helps[0].change == "twice the rate of links between north and south");
    return std::any_of(helps.begin(), helps.end(), [](const Explanation::Help& help) {
      return help.change == "twice the rate of links between h0 and h1 alone";
    });
  };
  CHECK(names_pair());
  // What is as fast as the way gets no faster without it.
  problem.links.Set(0, 2, Rate(1e2));
  CHECK_FALSE(names_pair());
}

TEST_CASE("what more memory would bring is not tried of very many devices, and an explanation says so") {
  // One device has it all: no two routes can share one sequence.
  Plan alone;
  alone.units.push_back({{"h0/0"}, {{0, 6}}});
  alone.routes.push_back({{0}, 1, 1});
  for (const int hosts : {9, 1025}) {
    PlanningProblem problem = Hosts(hosts);
    problem.shape.global_batch_sequences = 1;
    const absl::StatusOr<Explanation> explanation = ExplainAndCompare(problem, alone);
    REQUIRE(explanation.status().ToString() == "OK");
    INFO(problem.devices.size() << " devices");
    const bool says_so = problem.devices.size() > 2048;
    CHECK(explanation->helps_not_tried == (says_so ? "not tried of so many devices: more memory" : ""));
    const bool is_shown =
        FormatExplanation(*explanation).find("Would help  not tried of so many devices: more memory\n") !=
        std::string::npos;
    CHECK(is_shown == says_so);
  }
}

TEST_CASE("what would help is the slow link, the short memory, or nothing") {
  PlanningProblem problem = Hosts(2);
  // Nothing takes time but passes.
  const double infinite = std::numeric_limits<double>::infinity();
  for (LinkCost& cost : problem.links.each())
    cost = {LinkModel::Line(0, infinite), LinkModel::Line(0, infinite)};
  CHECK(HelpsOf(problem, ChoosePlan(problem)->plan).empty());
  // Gradients of each stage are summed between hosts.
  const LinkModel slow = LinkModel::Line(0, 1e4);
  problem.links.SetBetweenHosts(0, 0, {slow, slow});
  const std::vector<Explanation::Help> links = HelpsOf(problem, TwoPipelines());
  REQUIRE(!links.empty());
  CHECK(links[0].change == "twice the rate of links between alike of different hosts");
  CHECK(!links[0].planned_anew);
  CHECK(links[0].step_seconds < 0.95 * *PredictStepSeconds(problem, TwoPipelines()));
  // On one device all that is summed would stay there.
  problem.devices.resize(1);
  problem.links = DeviceLinks({0}, {0}, 1);
  problem.shape.global_batch_sequences = 4;
  problem.micro_batch_sizes = {1, 4};
  for (BlockTimes& times : problem.devices[0].times) times.layer = {1, 2, 1};
  problem.devices[0].times.push_back({{}, {1, 2, 1}, {}});  // of four sequences as of one
  problem.devices[0].shares.clear();
  Plan alone;
  alone.units.push_back({{"h0/0"}, {{0, 6}}});
  alone.routes.push_back({{0}, 4, 1});
  const RankMemory small = MemoryOfRank(alone, 0, problem.shape);
  problem.devices[0].room.memory = small.total() + KiB(1);
  const std::vector<Explanation::Help> memory = HelpsOf(problem, ChoosePlan(problem)->plan);
  REQUIRE(memory.size() == 1);
  CHECK(memory[0].change == "twice the memory of alike");
  CHECK(memory[0].planned_anew);
}

}  // namespace
}  // namespace medley
