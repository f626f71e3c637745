#include "coordinator/planner/techniques/optimizer_shares.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/planner/random_problem.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

// Devices as fast in passes of 3 s a layer, which update the whole model in so many seconds each. Messages take next to nothing.
PlanningProblem Updating(const std::vector<double>& update_seconds) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = 2, .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 40, .context = 8};
  problem.shape.sequence = 8;
  problem.shape.global_batch_sequences = 4 * static_cast<int>(update_seconds.size());
  problem.micro_batch_sizes = {1};
  problem.constraints.saves_memory = true;
  problem.constraints.max_stages = 1;
  problem.constraints.schedules = {Schedule::kOneForwardOneBackward};
  const double parameters = static_cast<double>(ModelElements(problem.shape.model));
  for (const double seconds : update_seconds) {
    const int number = static_cast<int>(problem.devices.size());
    problem.devices.push_back({.name = absl::StrCat("n/", number),
                               .kind = absl::StrCat("updates in ", seconds, " s"),
                               .processor = number,
                               .host = number,
                               .room = {.memory = GiB(1)},
                               .times = {{.embedding = {0, 0}, .layer = {1, 2, 1}, .head = {0, 0}}},
                               .update_seconds_per_parameter = seconds / parameters});
  }
  const LinkModel link = LinkModel::Line(1e-6, 1e12);
  problem.links = DeviceLinks(static_cast<int>(update_seconds.size()), {link, link});
  return problem;
}

// One of each device, with as many micro-batches each, which share the optimizer's state evenly.
Plan Replicas(const PlanningProblem& problem) {
  Plan plan{.shards_optimizer = true};
  for (const DeviceCost& device : problem.devices) {
    const int unit = static_cast<int>(plan.units.size());
    plan.units.push_back({.devices = {device.name},
                          .chunks = {{0, problem.shape.model.blocks()}},
                          .activations = device.activations});
    plan.routes.push_back({{unit}, 4, 1});
  }
  return plan;
}

std::vector<int> WeightsOf(const Plan& plan) {
  std::vector<int> weights;
  for (const Unit& unit : plan.units) weights.push_back(unit.optimizer_weight);
  return weights;
}

Plan Evenly(Plan plan) {
  for (Unit& unit : plan.units) unit.optimizer_weight = 1;
  return plan;
}

int WeightOf(const Plan& plan, const std::string& device) {
  for (const Unit& unit : plan.units) {
    if (unit.devices[0] == device) return unit.optimizer_weight;
  }
  return -1;
}

void CheckValid(const PlanningProblem& problem, const Plan& plan) {
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, SiteOf(problem)))
    FAIL_CHECK(violation.detail);
}

TEST_CASE("weights are small whole numbers in the proportion of how fast devices update") {
  const auto weights = [](const std::vector<double>& update_seconds) {
    const PlanningProblem problem = Updating(update_seconds);
    return WeightsOf(WithOptimizerSharesBySpeed(problem, Replicas(problem)));
  };
  CHECK(weights({2, 8}) == std::vector<int>{4, 1});
  CHECK(weights({3, 2}) == std::vector<int>{2, 3});
  CHECK(weights({1, 1, 2, 4}) == std::vector<int>{4, 4, 2, 1});
  CHECK(weights({1, 1e6}) == std::vector<int>{100, 1});
  // What measurements do not tell apart is alike, and what takes no time has no share that is right.
  CHECK(weights({2, 2}) == std::vector<int>{1, 1});
  CHECK(weights({2, 2.05, 1.98}) == std::vector<int>{1, 1, 1});
  CHECK(weights({2, 0}) == std::vector<int>{1, 1});
}

TEST_CASE("weights stay as they are where nothing is shared among unlike devices") {
  const PlanningProblem problem = Updating({1, 1, 4, 4});
  Plan plan = Replicas(problem);
  plan.shards_optimizer = false;
  CHECK(WithOptimizerSharesBySpeed(problem, plan) == plan);
  // Two pipelines, each stage of which is on alike devices; an untied head is held by the last ones alone.
  PlanningProblem untied = problem;
  untied.shape.model.tied_head = false;
  plan = Plan{.shards_optimizer = true};
  for (int route = 0; route < 2; ++route) {
    for (int stage = 0; stage < 2; ++stage) {
      plan.units.push_back({.devices = {problem.devices[2 * stage + route].name},
                            .chunks = {stage == 0 ? BlockRange{0, 2} : BlockRange{2, 4}},
                            .optimizer_weight = 1 + route});
    }
    plan.routes.push_back({{2 * route, 2 * route + 1}, 8, 1});
  }
  CheckValid(untied, plan);
  CHECK(WithOptimizerSharesBySpeed(untied, plan) == plan);
}

TEST_CASE("of unlike devices with long updates the plan has shares by speed, and its step is shorter") {
  const PlanningProblem problem = Updating({2, 8});
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CAPTURE(Describe(chosen->plan), chosen->fitting);
  CheckValid(problem, chosen->plan);
  REQUIRE(chosen->plan.shards_optimizer);
  CHECK(WeightOf(chosen->plan, "n/0") == 4);
  CHECK(WeightOf(chosen->plan, "n/1") == 1);
  // Four micro-batches of two layers each, and four or one fifths of an update, where the slow one had a half.
  CHECK(chosen->step_seconds == Approx(4 * 6 + 1.6).epsilon(1e-2));
  CHECK(*PredictStepSeconds(problem, Evenly(chosen->plan)) == Approx(4 * 6 + 4).epsilon(1e-2));
  CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
  CHECK(chosen->lower_bound_seconds <= chosen->step_seconds);
  CHECK_THAT(chosen->fitting, Catch::Contains("replicas share the optimizer's state, the faster ones more"));
  // Of alike ones they stay even.
  const absl::StatusOr<ChosenPlan> alike = ChoosePlan(Updating({4, 4}));
  REQUIRE(alike.status().ToString() == "OK");
  CHECK(alike->plan.shards_optimizer);
  CHECK(WeightsOf(alike->plan) == std::vector<int>{1, 1});
}

TEST_CASE("shares by speed are lowered where the fast device has no room for them") {
  PlanningProblem problem = Updating({2, 8});
  const Plan even = Replicas(problem);
  const Plan by_speed = WithOptimizerSharesBySpeed(problem, even);
  DeviceRoom& room = problem.devices[0].room;
  const Bytes both = PeakMemory(room, MemoryOfRank(even, 0, problem.shape)) +
                     PeakMemory(room, MemoryOfRank(by_speed, 0, problem.shape));
  room.memory = Bytes{both.value / 2};
  REQUIRE(FitsMemory(problem, even));
  REQUIRE_FALSE(FitsMemory(problem, by_speed));
  const Plan lowered = WithOptimizerSharesBySpeed(problem, even);
  CheckValid(problem, lowered);
  CHECK(FitsMemory(problem, lowered));
  CHECK(lowered.units[0].optimizer_weight > lowered.units[1].optimizer_weight);
  CHECK(lowered.units[0].optimizer_weight < 4 * lowered.units[1].optimizer_weight);
  CHECK(*PredictStepSeconds(problem, lowered) < *PredictStepSeconds(problem, even) - 0.5);

  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CAPTURE(Describe(chosen->plan), chosen->fitting);
  CheckValid(problem, chosen->plan);
  CHECK(chosen->step_seconds <= *PredictStepSeconds(problem, lowered) * (1 + 1e-9));
  CHECK(chosen->plan.shards_optimizer);
  CHECK(WeightOf(chosen->plan, "n/0") > WeightOf(chosen->plan, "n/1"));
}

TEST_CASE("many unlike devices are planned with shares by speed, too") {
  std::vector<double> update_seconds(20, 24);
  std::fill(update_seconds.begin() + 10, update_seconds.end(), 96);
  const PlanningProblem problem = Updating(update_seconds);
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  CAPTURE(Describe(chosen->plan), chosen->fitting);
  CheckValid(problem, chosen->plan);
  REQUIRE(chosen->plan.shards_optimizer);
  const std::vector<int> weights = WeightsOf(chosen->plan);
  CHECK(*std::max_element(weights.begin(), weights.end()) ==
        4 * *std::min_element(weights.begin(), weights.end()));
  CHECK(*PredictStepSeconds(problem, chosen->plan) < *PredictStepSeconds(problem, Evenly(chosen->plan)));
  CHECK(chosen->lower_bound_seconds <= chosen->step_seconds);
}

TEST_CASE("whatever room there is, shares by speed are valid and fit, and stay as they are", "[property]") {
  int uneven = 0, lowered = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    PlanningProblem problem = RandomProblem(seed, {.min_devices = 2,
                                                   .max_devices = 4,
                                                   .processors = RandomProcessors::kOwn,
                                                   .memory = RandomMemory::kPlenty});
    problem.shape.global_batch_sequences = 4 * static_cast<int>(problem.devices.size());
    problem.micro_batch_sizes.resize(1);
    const Plan even = Replicas(problem);
    const Plan by_speed = WithOptimizerSharesBySpeed(problem, even);
    for (Rank rank = 0; rank < RankCount(even); ++rank) {
      const RankMemory memory = MemoryOfRank(even, rank, problem.shape);
      const double more = std::uniform_real_distribution<double>(0, 0.5)(random);
      DeviceRoom& room = problem.devices[rank].room;
      room.memory = PeakMemory(room, memory) +
                    Bytes{static_cast<int64_t>(more * static_cast<double>(memory.optimizer.value))};
    }
    REQUIRE(FitsMemory(problem, even));
    const Plan fitting = WithOptimizerSharesBySpeed(problem, even);
    CheckValid(problem, fitting);
    CHECK(FitsMemory(problem, fitting));
    CHECK(WithOptimizerSharesBySpeed(problem, fitting) == fitting);
    uneven += !(Evenly(fitting) == fitting);
    lowered += !(fitting == even) && !(fitting == by_speed);
  }
  CHECK(uneven > 20);
  CHECK(lowered > 10);
}

}  // namespace
}  // namespace medley
