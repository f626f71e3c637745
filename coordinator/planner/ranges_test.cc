#include "coordinator/planner/techniques/ranges.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/planner/techniques/orders.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/plan/check_plan.h"

namespace medley {
namespace {

// Devices whose layers take as many seconds forward, and twice that backward; a head takes as long as a layer.
PlanningProblem Devices(const std::vector<double>& seconds, int layers, int micro_batches) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = layers, .hidden = 8, .heads = 1, .feed_forward = 32, .vocabulary = 10, .context = 16};
  problem.shape.sequence = 16;
  problem.shape.global_batch_sequences = micro_batches;
  problem.micro_batch_sizes = {1};
  for (const double layer : seconds) {
    const int number = static_cast<int>(problem.devices.size());
    problem.devices.push_back(
        {.name = absl::StrCat("n/", number),
         .kind = absl::StrCat("kind ", layer),
         .processor = number,
         .room = {.memory = GiB(1)},
         .times = {
             {.embedding = {0, 0}, .layer = {layer, 2 * layer, layer}, .head = {layer, 2 * layer, layer}}}});
  }
  problem.links =
      DeviceLinks(static_cast<int>(seconds.size()), {LinkModel::Line(0.01, 1e9), LinkModel::Line(100, 1e9)});
  return problem;
}

// One route through all devices; each but the last has so many layers.
Plan Pipeline(const PlanningProblem& problem, const std::vector<int>& layers) {
  Plan plan;
  plan.routes = {{{}, problem.shape.global_batch_sequences, 1}};
  int end = 1, first = 0;
  for (size_t u = 0; u < layers.size(); ++u) {
    end += layers[u];
    if (u + 1 == layers.size()) end = problem.shape.model.blocks();
    plan.units.push_back({.devices = {problem.devices[u].name}, .chunks = {{first, end}}});
    plan.routes[0].units.push_back(static_cast<int>(u));
    first = end;
  }
  return plan;
}

void CheckValid(const PlanningProblem& problem, const Plan& plan) {
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, SiteOf(problem)))
    FAIL_CHECK(violation.detail);
}

TEST_CASE("units come round again and again, or there and back with the ends on one") {
  const PlanningProblem problem = Devices({1, 1, 1}, 12, 4);
  const Plan plan = Pipeline(problem, {4, 5, 3});
  CheckValid(problem, plan);
  const std::optional<Plan> over = InRanges(problem, plan, 2, RangeOrder::kOver);
  REQUIRE(over);
  CheckValid(problem, *over);
  CHECK(Describe(*over).find("[n/0 blocks 0-2 -> n/1 blocks 3-4 -> n/2 blocks 5-5 -> n/0 blocks 6-7 -> n/1 "
                             "blocks 8-10 -> n/2 blocks 11-13]") != std::string::npos);
  // The head comes to the first, which gives up a layer for it.
  const std::optional<Plan> back = InRanges(problem, plan, 2, RangeOrder::kThereAndBack);
  REQUIRE(back);
  CheckValid(problem, *back);
  CHECK(back->routes[0].units == std::vector<UnitId>{0, 1, 2, 1, 0});
  CHECK(LayersOf(back->units[0], problem.shape.model) == 3);
  CHECK(Holds(back->units[0], problem.shape.model.embedding_block()));
  CHECK(Holds(back->units[0], problem.shape.model.head_block()));
}

TEST_CASE("a unit whose layers change with its ranges keeps as many whole, and makes the others again") {
  const PlanningProblem problem = Devices({1, 1, 1}, 12, 4);
  Plan plan = Pipeline(problem, {4, 5, 3});
  for (Unit& unit : plan.units) unit.recompute = Recompute::kLayers;
  plan.units[0].recomputed_layers = 4;
  plan.units[1].recomputed_layers = 2;
  const std::optional<Plan> back = InRanges(problem, plan, 2, RangeOrder::kThereAndBack);
  REQUIRE(back);
  CheckValid(problem, *back);
  REQUIRE(LayersOf(back->units[0], problem.shape.model) == 3);
  CHECK(back->units[0].recomputed_layers == 3);
  CHECK(LayersOf(back->units[1], problem.shape.model) - back->units[1].recomputed_layers == 3);
  CHECK(back->units[2].recomputed_layers == 0);
}

TEST_CASE("whatever a pipeline's units hold, its ranges are valid, alike and balanced", "[property]") {
  int cut_plans = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto integer = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    std::vector<double> seconds;
    std::vector<int> layers;
    for (int stages = integer(1, 6); stages > 0; --stages) {
      seconds.push_back(integer(1, 4));
      layers.push_back(integer(1, 7));
    }
    int all = 0;
    for (const int of : layers) all += of;
    const PlanningProblem problem = Devices(seconds, all, 4);
    const Plan plan = Pipeline(problem, layers);
    const int ranges = integer(2, 4);
    const RangeOrder order = integer(0, 1) == 0 ? RangeOrder::kOver : RangeOrder::kThereAndBack;
    const std::optional<Plan> cut = InRanges(problem, plan, ranges, order);
    if (!cut) continue;
    ++cut_plans;
    CheckValid(problem, *cut);
    CHECK(MostRanges(*cut) <= ranges);
    double most = 0, least_with_more = 1e9;
    for (size_t u = 0; u < layers.size(); ++u) {
      const int held = LayersOf(cut->units[u], problem.shape.model);
      if (order == RangeOrder::kOver) CHECK(held == LayersOf(plan.units[u], problem.shape.model));
      const bool head = Holds(cut->units[u], problem.shape.model.head_block());
      most = std::max(most, (held + (head ? 1 : 0)) * seconds[u]);
      least_with_more = std::min(least_with_more, (held + 1 + (head ? 1 : 0)) * seconds[u]);
    }
    // No layer's move would make the longest shorter.
    if (order == RangeOrder::kThereAndBack) CHECK(least_with_more >= most);
  }
  CHECK(cut_plans > 150);
}

TEST_CASE("what has no pipeline, or is in no state for it, is not cut") {
  const PlanningProblem problem = Devices({1, 1}, 6, 4);
  Plan plan = Pipeline(problem, {3, 3});
  CHECK(InRanges(problem, plan, 2, RangeOrder::kOver));
  Plan windows = plan;
  windows.units[0].window_layers = 2;
  CHECK_FALSE(InRanges(problem, windows, 2, RangeOrder::kOver));
  CHECK_FALSE(InRanges(problem, *InRanges(problem, plan, 2, RangeOrder::kOver), 2, RangeOrder::kOver));
  const Plan single = Pipeline(problem, {6});
  CHECK_FALSE(InRanges(problem, single, 2, RangeOrder::kThereAndBack));
}

TEST_CASE("where a pipeline of few micro-batches fills for long, units get several ranges each") {
  PlanningProblem problem = Devices({1, 1, 1, 1}, 15, 6);
  problem.constraints.max_routes = 1;
  problem.constraints.synthesised_orders = true;
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.ok());
  CheckValid(problem, chosen->plan);
  CHECK(MostRanges(chosen->plan) > 1);
  CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
  CHECK(chosen->lower_bound_seconds <= chosen->step_seconds);
  CHECK_THAT(chosen->orders, Catch::Contains("ranges of blocks a unit"));
  CHECK(ChoosePlan(problem)->plan == chosen->plan);
  // The best of one range each is slower by what it fills.
  problem.constraints.max_stages = 4;
  const auto of_one = ChoosePlan(problem);
  REQUIRE(of_one.ok());
  CHECK(MostRanges(of_one->plan) == 1);
  CHECK(chosen->step_seconds < 0.97 * of_one->step_seconds);
}

}  // namespace
}  // namespace medley
