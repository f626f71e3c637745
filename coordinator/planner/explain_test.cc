#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "coordinator/planner/format_figures.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/random_problem.h"

namespace medley {
namespace {

const RandomProblemOptions kThreeDevices = {.min_devices = 3,
                                            .max_devices = 3,
                                            .processors = RandomProcessors::kOwn,
                                            .memory = RandomMemory::kPlenty};

TEST_CASE("no alternative is faster than the chosen plan, and each is of its kind") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed);
    const auto chosen = ChoosePlan(problem);
    const auto alternatives = BestOfEachKind(problem);
    REQUIRE(alternatives.ok());
    REQUIRE(alternatives->size() == 4);
    for (const Alternative& alternative : *alternatives) {
      CAPTURE(NameOf(alternative.kind));
      if (!alternative.plan.ok()) {
        CHECK(absl::IsResourceExhausted(alternative.plan.status()));
        continue;
      }
      REQUIRE(chosen.ok());
      const Plan& plan = alternative.plan->plan;
      CHECK(alternative.plan->step_seconds >= chosen->step_seconds * (1 - 1e-9));
      CHECK(!alternative.description.empty());
      for (const Unit& unit : plan.units) {
        const auto device =
            std::find_if(problem.devices.begin(), problem.devices.end(),
                         [&](const DeviceCost& cost) { return cost.name == unit.devices[0]; });
        REQUIRE(device != problem.devices.end());
        CHECK(unit.activations == device->activations);
      }
      switch (alternative.kind) {
        case PlanKind::kSingleDevice:
          CHECK(plan.units.size() == 1);
          break;
        case PlanKind::kEqualSplit:
          CHECK(plan.units.size() == problem.devices.size());
          break;
        case PlanKind::kPureDataParallel:
          CHECK(plan.routes.size() == plan.units.size());
          CHECK(plan.units.size() > 1);
          break;
        case PlanKind::kPurePipeline:
          CHECK(plan.routes.size() == 1);
          CHECK(plan.units.size() > 1);
          break;
        default:
          FAIL_CHECK("not of the first four kinds");
      }
    }
  }
}

TEST_CASE("an equal split differs by one block or one micro-batch at most") {
  int splits = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const auto alternatives = BestOfEachKind(RandomProblem(seed, kThreeDevices));
    REQUIRE(alternatives.ok());
    const auto& equal = (*alternatives)[1];
    REQUIRE(equal.kind == PlanKind::kEqualSplit);
    if (!equal.plan.ok()) continue;
    ++splits;
    for (const Unit& a : equal.plan->plan.units) {
      for (const Unit& b : equal.plan->plan.units)
        CHECK(std::abs(a.chunks[0].size() - b.chunks[0].size()) <= 1);
    }
    for (const Route& a : equal.plan->plan.routes) {
      for (const Route& b : equal.plan->plan.routes) CHECK(std::abs(a.micro_batches - b.micro_batches) <= 1);
    }
  }
  CHECK(splits > 30);
}

TEST_CASE("an explanation names every device, the bottleneck and every other kind, with numbers") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, kThreeDevices);
    const auto chosen = ChoosePlan(problem);
    REQUIRE(chosen.ok());
    const auto explanation = ExplainAndCompare(problem, chosen->plan);
    REQUIRE(explanation.ok());
    REQUIRE(explanation->devices.size() == problem.devices.size());
    CHECK_THAT(explanation->bottleneck,
               Catch::Contains(" of the step's " + FormatSeconds(chosen->step_seconds)));
    CHECK(explanation->bubble_share >= -1e-9);
    CHECK(explanation->bubble_share <= 1);
    CHECK(explanation->rejected.size() >= 2);  // a plan may be the best of two kinds
    for (const Explanation::Rejected& rejected : explanation->rejected) {
      if (rejected.step_seconds > 0) {
        CHECK_THAT(rejected.why_slower,
                   Catch::Contains("would be busy") || Catch::Contains("; the busiest device computes for"));
      } else {
        CHECK(!rejected.why_slower.empty());
      }
      // Plans that save memory are not chosen here.
      if (rejected.kind == PlanKind::kShardedParameters) continue;
      CHECK((rejected.step_seconds == 0 || rejected.step_seconds >= chosen->step_seconds * (1 - 1e-9)));
    }
    int blocks = 0;
    for (const Explanation::Device& device : explanation->devices) blocks += device.blocks;
    CHECK(blocks == static_cast<int>(chosen->plan.routes.size()) * problem.shape.model.blocks());

    if (chosen->plan.routes.size() > 1) {
      CHECK_THAT(explanation->reductions, Catch::Contains("goes by") && Catch::Contains("would take"));
    }

    const std::string text = FormatExplanation(*explanation);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 110);
    for (const DeviceCost& device : problem.devices) CHECK_THAT(text, Catch::Contains(device.name));
  }
}

TEST_CASE("an explanation says what takes the memory of each device in use, to the byte") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, kThreeDevices);
    const auto chosen = ChoosePlan(problem);
    REQUIRE(chosen.ok());
    Plan plan = chosen->plan;
    plan.shards_optimizer = true;
    const auto explanation = ExplainPlan(problem, plan);
    REQUIRE(explanation.ok());
    for (const Explanation::Device& device : explanation->devices) {
      if (!device.used) continue;
      CHECK(device.collectives.value > 0);
      CHECK(device.collectives <= device.memory.workspace);
      CHECK(device.memory.total() <= device.peak_memory);
      CHECK(device.memory.gradients == device.memory.parameters);
      CHECK(device.memory.windows.total() == Bytes{0});
      CHECK(device.memory.optimizer <= 2 * device.memory.parameters);
    }
  }
}

TEST_CASE("a link that is slower than all computing is the bottleneck") {
  PlanningProblem problem = RandomProblem(1, kThreeDevices);
  for (LinkCost& link : problem.links.each()) link.transfer = LinkModel::Line(0, 1e-3);
  Plan plan;
  plan.units = {{{problem.devices[0].name}, {{0, 1}}},
                {{problem.devices[1].name}, {{1, problem.shape.model.blocks()}}}};
  plan.routes = {{{0, 1}, problem.shape.global_batch_sequences, 1}};
  const auto explanation = ExplainAndCompare(problem, plan);
  REQUIRE(explanation.ok());
  CHECK_THAT(explanation->bottleneck, Catch::StartsWith("link: "));
  CHECK(!explanation->rejected.empty());
}

TEST_CASE(
    "a plan whose routes differ in their micro-batch size is explained, beside others of one size where "
    "there are such") {
  PlanningProblem problem = RandomProblem(1, kThreeDevices);
  const BlockRange all = {0, problem.shape.model.blocks()};
  problem.shape.global_batch_sequences = 8;
  for (DeviceCost& device : problem.devices) device.times.assign(2, device.times[0]);
  Plan plan;
  plan.units = {{{problem.devices[0].name}, {all}}, {{problem.devices[1].name}, {all}}};
  const auto is_a_plan = [](const Explanation::Rejected& other) { return other.step_seconds > 0; };
  problem.micro_batch_sizes = {1, 7};
  plan.routes = {{{0}, 1, 7}, {{1}, 1, 1}};
  const auto mixed = ExplainAndCompare(problem, plan);
  REQUIRE(mixed.status().ToString() == "OK");
  CHECK_THAT(mixed->summary, Catch::Contains("x 1 of 7"));
  CHECK(std::any_of(mixed->rejected.begin(), mixed->rejected.end(), is_a_plan));
  CHECK_THAT(std::string(ChoosePlan(problem).status().message()),
             Catch::Contains("micro_batch_sizes: 7; must divide"));

  problem.micro_batch_sizes = {3, 5};
  plan.routes = {{{0}, 1, 5}, {{1}, 1, 3}};
  const auto odd = ExplainAndCompare(problem, plan);
  REQUIRE(odd.status().ToString() == "OK");
  for (const Explanation::Rejected& other : odd->rejected)
    CHECK((other.kind == PlanKind::kShardedParameters ||
           !is_a_plan(other)));  // which is the plan itself, but for that
}

TEST_CASE("an explanation says how gradients are summed, by choice or by force") {
  PlanningProblem problem = RandomProblem(1, kThreeDevices);
  for (LinkCost& link : problem.links.each()) link = {LinkModel::Line(1e-3, 1e6), LinkModel::Line(1e-3, 1e6)};
  const BlockRange all = {0, problem.shape.model.blocks()};
  Plan plan;
  plan.units = {{{problem.devices[0].name}, {all}}, {{problem.devices[1].name}, {all}}};
  plan.routes = {{{0}, 1, 1}, {{1}, problem.shape.global_batch_sequences - 1, 1}};
  REQUIRE(plan.routes[1].micro_batches > 0);
  const auto chosen = ExplainAndCompare(problem, plan);
  REQUIRE(chosen.ok());
  CHECK_THAT(chosen->reductions, Catch::Contains("over n/0, n/1") && !Catch::Contains("forces"));
  CHECK_THAT(FormatExplanation(*chosen), Catch::Contains("Reductions  the largest sum"));
  problem.forced_all_reduce = CollectiveAlgorithm::kTree;
  problem.wire_bytes_per_element = 2;
  const auto forced = ExplainAndCompare(problem, plan);
  REQUIRE(forced.ok());
  CHECK_THAT(forced->reductions, Catch::Contains("in bf16") && Catch::Contains("goes by tree") &&
                                     Catch::Contains("because the job forces that; ring would take"));
  // What is shared goes around a ring, whatever is forced.
  plan.shards_optimizer = true;
  const auto shared = ExplainPlan(problem, plan);
  REQUIRE(shared.ok());
  CHECK_THAT(shared->reductions, Catch::Contains("goes by a ring, scattered in ") &&
                                     Catch::Contains("; whole, it would take ") &&
                                     Catch::Contains(" by tree"));
}

TEST_CASE(
    "an explanation says that the largest sum goes by a library unless it is of layers in host memory") {
  PlanningProblem problem = RandomProblem(1, kThreeDevices);
  problem.forced_all_reduce.reset();
  problem.wire_bytes_per_element = 4;
  problem.device_memory = DeviceMemoryStrategy::kAutomatic;
  for (DeviceCost& device : problem.devices) {
    device.has_own_memory = true;
    device.group_library = "NCCL 2.28.3";
    device.fetch_bytes_per_second = device.store_bytes_per_second = 1e12;
    device.room.memory = device.host_memory = GiB(64);
  }
  for (LinkCost& link : problem.links.each())
    link = {LinkModel::Line(1e-3, 1e6), LinkModel::Line(1e-3, 1e6), {{2, {{{0, 1e-3}}}}}};
  ModelConfig& model = problem.shape.model;
  model.layers = 4;
  Plan plan{.schedule = Schedule::kGPipe};
  for (int d = 0; d < 2; ++d) plan.units.push_back({{problem.devices[d].name}, {{0, model.blocks()}}});
  plan.routes = {{{0}, 1, 1}, {{1}, problem.shape.global_batch_sequences - 1, 1}};
  const auto reductions = [&](int vocabulary, int window_layers) {
    model.vocabulary = vocabulary;
    plan.units[0].window_layers = window_layers;
    const auto explanation = ExplainPlan(problem, plan);
    REQUIRE(explanation.status().ToString() == "OK");
    return explanation->reductions;
  };
  const std::string by_library = "goes by NCCL 2.28.3 in 1.00 ms, as was measured of it";
  CHECK_THAT(reductions(2, 0), Catch::Contains(by_library));
  CHECK_THAT(reductions(2, 2), !Catch::Contains("NCCL"));
  // That of the embedding.
  CHECK_THAT(reductions(100'000, 2), Catch::Contains(by_library));
}

TEST_CASE("an explanation says of a unit that shares blocks what its devices exchange, and of what rows") {
  PlanningProblem problem = RandomProblem(1, kThreeDevices);
  ModelConfig& model = problem.shape.model;
  model.heads = 2;
  const std::vector<ModelShare> shares = EvenShares(model, 2);
  for (int d = 0; d < 2; ++d) {
    DeviceCost& device = problem.devices[d];
    device.room.memory = GiB(1);
    device.shares = {{.share = AtOrigin(shares[d]), .room = device.room, .times = device.times}};
  }
  for (LinkCost& link : problem.links.each()) link = {LinkModel::Line(1e-3, 1e6), LinkModel::Line(1e-3, 1e6)};
  Plan plan;
  plan.units = {{{problem.devices[0].name, problem.devices[1].name}, {{0, model.blocks()}}}};
  plan.routes = {{{0}, problem.shape.global_batch_sequences, 1}};
  const auto summed = ExplainPlan(problem, plan);
  REQUIRE(summed.status().ToString() == "OK");
  CHECK_THAT(summed->exchanges, Catch::Contains("; the largest, ") && Catch::Contains("goes by"));
  for (int d = 0; d < 2; ++d) problem.devices[d].has_own_memory = true;
  CHECK_THAT(ExplainPlan(problem, plan)->exchanges,
             Catch::Contains(", through the memory of hosts; the largest, "));
  for (int d = 0; d < 2; ++d) problem.devices[d].group_library = "NCCL 2.28.3";
  CHECK_THAT(
      ExplainPlan(problem, plan)->exchanges,
      Catch::Contains(", by NCCL 2.28.3, which is taken to be as fast as the measured links; the largest, "));
  for (LinkCost& link : problem.links.each()) link.all_reduce = {{2, {{{0, 1e-3}}}}};
  CHECK_THAT(ExplainPlan(problem, plan)->exchanges,
             Catch::Contains(", by NCCL 2.28.3, as was measured of it; the largest, ") &&
                 Catch::Contains(", takes 1.00 ms"));
  for (LinkCost& link : problem.links.each()) link.all_reduce.clear();
  CHECK_THAT(ExplainPlan(problem, plan)->exchanges,
             Catch::Contains("; with each micro-batch in 2 parts a step would take "));
  plan.routes = {{{0}, problem.shape.global_batch_sequences / 2, 2}};
  CHECK_THAT(ExplainPlan(problem, plan)->exchanges,
             Catch::Contains("; with each micro-batch in 2 parts a step would take "));
  plan.units[0].exchange_parts = 2;
  const auto in_parts = ExplainPlan(problem, plan);
  REQUIRE(in_parts.status().ToString() == "OK");
  CHECK_THAT(in_parts->exchanges,
             Catch::Contains(
                 " beside what they compute of other parts; micro-batches are cut into 2 parts, and if they "
                 "were not, a step would take "));
  CHECK_THAT(in_parts->summary, Catch::Contains(" in 2 parts blocks 0-"));
  plan.routes = {{{0}, problem.shape.global_batch_sequences, 1}};
  plan.units[0].exchange_parts = 1;
  plan.units[0].sequence_parallel = true;
  const auto by_rows = ExplainPlan(problem, plan);
  REQUIRE(by_rows.status().ToString() == "OK");
  const std::string rows = FormatBytes({int64_t{4} * problem.shape.sequence * model.hidden});
  CHECK_THAT(by_rows->exchanges,
             Catch::Contains("; the rows of a micro-batch, " + rows + ", are cut among them, gathered in "));
  CHECK_THAT(by_rows->summary, Catch::Contains(" sequence parallel blocks 0-"));
}

}  // namespace
}  // namespace medley
