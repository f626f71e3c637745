#include "coordinator/planner/techniques/memory_saving.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/random_problem.h"
#include "coordinator/planner/techniques/fewest_layers.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

const RandomProblemOptions kFourDevices = {.min_devices = 4,
                                           .max_devices = 4,
                                           .processors = RandomProcessors::kOwn,
                                           .memory = RandomMemory::kPlenty};

// Two routes of two units each, cut anywhere, or one of two.
Plan RandomPlanOf(const PlanningProblem& problem, std::mt19937_64& random, int routes) {
  Plan plan;
  const int blocks = problem.shape.model.blocks();
  for (int r = 0; r < routes; ++r) {
    const int cut = std::uniform_int_distribution<int>(1, blocks - 1)(random);
    for (const BlockRange& chunk : {BlockRange{0, cut}, BlockRange{cut, blocks}}) {
      const DeviceCost& device = problem.devices[plan.units.size()];
      plan.units.push_back({.devices = {device.name}, .chunks = {chunk}, .activations = device.activations});
    }
    plan.routes.push_back({{2 * r, 2 * r + 1}, 1, 1});
  }
  plan.routes[0].micro_batches = problem.shape.global_batch_sequences - (routes - 1);
  return plan;
}

// Whether any weights of 0 to 3 fit, and the rooms are then those.
bool AnyWeightsFit(const PlanningProblem& problem, Plan plan, size_t unit = 0) {
  if (unit == plan.units.size()) {
    return CheckPlanForm(plan, problem.shape).empty() && FitsMemory(problem, plan);
  }
  for (int weight = 0; weight <= 3; ++weight) {
    plan.units[unit].optimizer_weight = weight;
    if (AnyWeightsFit(problem, plan, unit + 1)) return true;
  }
  return false;
}

TEST_CASE("weights are found wherever some of 0 to 3 fit, and what is found fits", "[property]") {
  int found = 0, none = 0, uneven = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    PlanningProblem problem = RandomProblem(seed, kFourDevices);
    const int routes = problem.shape.global_batch_sequences < 2 ? 1 : 1 + static_cast<int>(seed % 2);
    Plan plan = RandomPlanOf(problem, random, routes);
    // Each device has room for some part of the state beside all else.
    for (Rank rank = 0; rank < RankCount(plan); ++rank) {
      const RankMemory memory = MemoryOfRank(plan, rank, problem.shape);
      const double part = std::uniform_real_distribution<double>(-0.1, 1.1)(random);
      DeviceRoom& room = problem.devices[rank].room;
      room.memory = PeakMemory(room, memory) - memory.optimizer +
                    Bytes{static_cast<int64_t>(part * static_cast<double>(memory.optimizer.value))};
    }
    OptimizerSharding sharding(problem, plan);
    Plan sharded = plan;
    sharded.shards_optimizer = true;
    const bool any = sharding.CanShard() && AnyWeightsFit(problem, sharded);
    const std::optional<Plan> fitting = sharding.Fit(std::vector<UnitSaving>(plan.units.size()));
    if (any) REQUIRE(fitting.has_value());
    if (!fitting) {
      ++none;
      continue;
    }
    ++found;
    CHECK(CheckPlanForm(*fitting, problem.shape).empty());
    CHECK(FitsMemory(problem, *fitting));
    for (const Unit& unit : fitting->units)
      uneven += unit.optimizer_weight != fitting->units[0].optimizer_weight;
  }
  CHECK(found > 60);
  CHECK(none > 60);
  CHECK(uneven > 40);
}

TEST_CASE("where there is room the state is shared evenly") {
  const PlanningProblem problem = RandomProblem(2, kFourDevices);
  std::mt19937_64 random(1);
  const Plan plan = RandomPlanOf(problem, random, 1);
  const std::optional<Plan> fitting =
      OptimizerSharding(problem, plan).Fit({{.recompute = Recompute::kLayers}, {}});
  REQUIRE(fitting.has_value());
  CHECK(fitting->shards_optimizer);
  CHECK(fitting->units[0].optimizer_weight == 1);
  CHECK(fitting->units[1].optimizer_weight == 1);
  CHECK(fitting->units[0].recompute == Recompute::kLayers);
}

TEST_CASE("one unit has nothing to share") {
  const PlanningProblem problem = RandomProblem(2, kFourDevices);
  Plan plan;
  plan.units = {{.devices = {problem.devices[0].name}, .chunks = {{0, problem.shape.model.blocks()}}}};
  plan.routes = {{{0}, problem.shape.global_batch_sequences, 1}};
  CHECK_FALSE(OptimizerSharding(problem, plan).CanShard());
}

TEST_CASE("as few layers are recomputed as fit, and what more room has is a shorter step") {
  PlanningProblem problem = RandomProblem(7, kFourDevices);
  problem.shape.model.layers = 6;
  Plan plan;
  plan.units.push_back({.devices = {problem.devices[0].name},
                        .chunks = {{0, problem.shape.model.blocks()}},
                        .activations = problem.devices[0].activations,
                        .recompute = Recompute::kLayers});
  plan.routes.push_back({{0}, problem.shape.global_batch_sequences, 1});
  double longest_seconds = 0;
  for (int layers = 0; layers <= 6; ++layers) {
    Plan exactly = plan;
    exactly.units[0].recompute = layers == 0 ? Recompute::kNone : Recompute::kLayers;
    exactly.units[0].recomputed_layers = layers;
    CAPTURE(layers);
    const absl::StatusOr<double> seconds = PredictStepSeconds(problem, exactly);
    REQUIRE(seconds.ok());
    CHECK(*seconds >= longest_seconds);
    longest_seconds = *seconds;
    if (layers == 0) continue;
    PlanningProblem little = problem;
    DeviceRoom& room = little.devices[0].room;
    room.memory = PeakMemory(room, MemoryOfRank(exactly, 0, problem.shape));
    const Plan fewest = WithFewestRecomputed(little, plan);
    CHECK(fewest.units[0].recomputed_layers == layers % 6);  // 0: of all
    CHECK(FitsMemory(little, fewest));
    room.memory -= Bytes{1};
    if (layers < 6) CHECK(WithFewestRecomputed(little, plan).units[0].recomputed_layers == (layers + 1) % 6);
  }
  problem.devices[0].room.memory = KiB(1);
  CHECK(WithFewestRecomputed(problem, plan) == plan);
  Plan of_three = plan;
  of_three.units[0].recomputed_layers = 3;
  CHECK(WithFewestRecomputed(problem, of_three) == plan);
}

TEST_CASE("activations of as few first layers as fit live in host memory, and of fewer take no longer") {
  PlanningProblem problem = RandomProblem(7, kFourDevices);
  problem.shape.model.layers = 6;
  problem.shape.global_batch_sequences = 8;
  problem.devices[0].fetch_bytes_per_second = problem.devices[0].store_bytes_per_second = 1e6;
  Plan plan{.schedule = Schedule::kGPipe};
  plan.units.push_back({.devices = {problem.devices[0].name},
                        .chunks = {{0, problem.shape.model.blocks()}},
                        .activations = problem.devices[0].activations,
                        .activations_home = ActivationsHome::kHost});
  plan.routes.push_back({{0}, problem.shape.global_batch_sequences, 1});
  double longest_seconds = 0;
  for (int layers = 1; layers <= 6; ++layers) {
    Plan exactly = plan;
    exactly.units[0].homed_layers = layers % 6;  // 0: of all
    CAPTURE(layers);
    const absl::StatusOr<double> seconds = PredictStepSeconds(problem, exactly);
    REQUIRE(seconds.ok());
    CHECK(*seconds >= longest_seconds);
    longest_seconds = *seconds;
    PlanningProblem little = problem;
    DeviceRoom& room = little.devices[0].room;
    room.memory = PeakMemory(room, MemoryOfRank(exactly, 0, problem.shape));
    CHECK(WithFewestHomed(little, plan) == exactly);
    CHECK(WithFewestHomed(little, exactly) == exactly);
    CHECK(FitsMemory(little, exactly));
    const std::vector<std::string> told = DescribeSaving(little, exactly, *PredictStep(little, exactly));
    REQUIRE(told.size() == 1);
    CHECK_THAT(told[0],
               Catch::StartsWith(absl::StrCat("what forwards keep ",
                                              layers < 6 ? absl::StrCat("of ", layers, " of 6 layers ") : "",
                                              "goes to host memory and comes back on n/0 (saves ")));
    room.memory -= Bytes{1};
    if (layers < 6) CHECK(WithFewestHomed(little, plan).units[0].homed_layers == (layers + 1) % 6);
  }
  plan.units[0].KeepActivationsOnDevice();
  CHECK(WithFewestHomed(problem, plan) == plan);
}

TEST_CASE("what is recomputed takes more time the less is kept, and is told with figures") {
  PlanningProblem problem = RandomProblem(2, kFourDevices);
  problem.shape.model.layers = 4;
  const DeviceCost& device = problem.devices[0];
  double before = -1;
  for (const Recompute recompute : kRecomputesByTime) {
    const double seconds = RecomputeSeconds(problem.shape.model, problem.micro_batch_sizes[0],
                                            problem.shape.sequence, device.times[0].layer, recompute);
    CHECK(seconds > before);
    CHECK(seconds <= device.times[0].layer.forward_seconds);
    before = seconds;
  }
  std::mt19937_64 random(4);
  Plan plan = RandomPlanOf(problem, random, 1);
  CHECK(DescribeSaving(problem, plan, *PredictStep(problem, plan)).empty());
  plan.units[0].chunks = {{0, 2}};
  plan.units[1].chunks = {{2, problem.shape.model.blocks()}};
  plan.units[0].recompute = Recompute::kLayers;
  plan.shards_optimizer = true;
  plan.units[1].optimizer_weight = 3;
  const std::vector<std::string> told = DescribeSaving(problem, plan, *PredictStep(problem, plan));
  REQUIRE(told.size() == 2);
  CHECK_THAT(told[0], Catch::StartsWith("n/0 recomputes layers instead of keeping it (saves ") &&
                          Catch::Contains(" on n/0; takes ") && Catch::Contains(" % of the step at most)"));
  CHECK_THAT(told[1], Catch::Contains("by weights: n/0 1, n/1 3 (saves "));
  plan.units[0].recomputed_layers = 1;
  plan.units[0].chunks = {{0, 4}};
  plan.units[1].chunks = {{4, problem.shape.model.blocks()}};
  CHECK_THAT(DescribeSaving(problem, plan, *PredictStep(problem, plan)).front(),
             Catch::StartsWith("n/0 recomputes 1 of 3 layers instead of keeping it (saves "));
  plan.units[0].recomputed_layers = 0;
  // A pipeline whose ends are not tied has nothing to share, whatever it says.
  problem.shape.model.tied_head = false;
  plan.units[0].recompute = Recompute::kNone;
  CHECK(DescribeSaving(problem, plan, *PredictStep(problem, plan)).empty());
}

}  // namespace
}  // namespace medley
