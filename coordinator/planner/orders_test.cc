#include "coordinator/planner/techniques/orders.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/planner/random_problem.h"
#include "coordinator/planner/techniques/order_problem.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/work_bound.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

Plan ThreeStages(Schedule schedule) {
  Plan plan{.schedule = schedule};
  plan.units = {{{"n/0"}, {{0, 2}}}, {{"n/1"}, {{2, 3}}}, {{"n/2"}, {{3, 5}}}};
  plan.routes = {{{0, 1, 2}, 6, 1}};
  return plan;
}

void CheckValid(const PlanningProblem& problem, const Plan& plan) {
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, SiteOf(problem)))
    FAIL_CHECK(violation.detail);
}

TEST_CASE("a pipeline's times and memory are those of its cost model") {
  const PlanningProblem problem = UnevenPipeline();
  Plan plan = ThreeStages(Schedule::kOneForwardOneBackward);
  plan.units[1].recompute = Recompute::kLayers;
  const auto made = MakeOrderProblem(problem, plan);
  REQUIRE(made.ok());
  const std::vector<TimedStage>& stages = made->pipeline.routes[0].stages;
  REQUIRE(stages.size() == 3);
  CHECK(stages[0].forward_seconds == Approx(1));
  CHECK(stages[0].input_gradient_seconds == Approx(1));
  CHECK(stages[0].weight_gradient_seconds == Approx(1));
  CHECK(stages[0].message_seconds == Approx(0.05).epsilon(1e-3));
  CHECK(stages[0].deferred > stages[0].kept);
  // What recomputes has one backward, and makes a forward again in it.
  CHECK(stages[1].input_gradient_seconds > 2 * 1.3);
  CHECK(stages[1].weight_gradient_seconds == 0);
  CHECK(stages[1].deferred == 0);
  CHECK(stages[2].weight_gradient_seconds == Approx(1.6));
  CHECK(stages[2].message_seconds == 0);
  // As many micro-batches as the limit allows fit the device, and not twice as many.
  const double kept = made->memory_limit[0] / stages[0].kept;
  plan.schedule = Schedule::kGPipe;
  PlanningProblem tight = problem;
  const RankMemory needed = MemoryOfRank(plan, 0, problem.shape);
  tight.devices[0].room.memory = needed.total();
  const double tight_kept = MakeOrderProblem(tight, plan)->memory_limit[0] / stages[0].kept;
  CHECK(tight_kept >= 5);
  CHECK(tight_kept < 8);
  CHECK(tight_kept < kept);
}

TEST_CASE("orders leave backwards whole that take longer in two passes, where nobody waits for them") {
  PlanningProblem problem = UnevenPipeline();
  for (DeviceCost& device : problem.devices) device.times = problem.devices.back().times;
  const auto unaware = ChoosePlan(problem);
  REQUIRE(unaware.ok());
  for (DeviceCost& device : problem.devices) device.times[0].layer.split_seconds = 0.4;
  const auto made = MakeOrderProblem(problem, ThreeStages(Schedule::kOneForwardOneBackward));
  REQUIRE(made.ok());
  for (const TimedStage& stage : made->pipeline.routes[0].stages) {
    CHECK(stage.input_gradient_seconds == Approx(1.6 + 0.4));
    CHECK(stage.weight_gradient_seconds == Approx(1.6));
    CHECK(stage.split_seconds == Approx(0.4));
    CHECK(stage.work_seconds() == Approx(3 * 1.6));
  }
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.ok());
  CheckValid(problem, chosen->plan);
  CHECK(chosen->plan.schedule == Schedule::kListed);
  const auto apart = [](const Plan& plan) {
    int count = 0;
    for (const Unit& unit : plan.units) {
      for (const UnitOp& op : unit.order) count += op.kind == UnitOp::Kind::kWeightGradient ? 1 : 0;
    }
    return count;
  };
  CHECK(apart(chosen->plan) > 0);
  CHECK(apart(chosen->plan) < apart(unaware->plan));
  CHECK(chosen->step_seconds < 0.99 * *PredictStepSeconds(problem, unaware->plan));
}

TEST_CASE("where an order pays off it is chosen, fits, and is told of") {
  PlanningProblem problem = UnevenPipeline();
  problem.constraints.synthesised_orders = false;
  const auto named = ChoosePlan(problem);
  REQUIRE(named.ok());
  CHECK(named->proven_optimal);
  CHECK(named->orders.empty());
  problem.constraints.synthesised_orders = true;
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.ok());
  CHECK(chosen->plan.schedule == Schedule::kListed);
  CHECK(chosen->step_seconds < named->step_seconds * (1 - kLeastGain));
  CHECK(chosen->step_seconds == *PredictStepSeconds(problem, chosen->plan));
  CHECK_FALSE(chosen->proven_optimal);
  CHECK(chosen->lower_bound_seconds == Approx(WorkSeconds(problem)));
  CHECK_THAT(chosen->orders, Catch::Contains("% faster than") && Catch::Contains("proven to be the best"));
  CheckValid(problem, chosen->plan);
  // Again, it is the same.
  const auto again = ChoosePlan(problem);
  CHECK(again->plan == chosen->plan);
  CHECK(again->orders == chosen->orders);
}

TEST_CASE("where units may go ahead of norms the order is made for steps that stand staggered") {
  PlanningProblem problem = UnevenPipeline();
  problem.shape.model.tied_head = false;
  for (DeviceCost& device : problem.devices) device.times = problem.devices.back().times;
  const auto waits = ChoosePlan(problem);
  REQUIRE(waits.ok());
  CHECK_FALSE(waits->plan.post_validation);
  problem.constraints.post_validation = true;
  const auto goes = ChoosePlan(problem);
  REQUIRE(goes.ok());
  CheckValid(problem, goes->plan);
  CHECK(goes->plan.post_validation);
  CHECK(goes->step_seconds == Approx(*PredictStepSeconds(problem, goes->plan)));
  CHECK(goes->step_seconds < 0.97 * waits->step_seconds);
  // No step is shorter than the work of the busiest unit.
  CHECK(goes->step_seconds >= 6 * 3 * 1.6);
  CHECK(goes->orders.find("go ahead of the norms") != std::string::npos);
  // Where keeping the parameters as they were takes more than there is left, none does.
  PlanningProblem tight = problem;
  for (size_t d = 0; d < tight.devices.size(); ++d) {
    Bytes most;
    for (Rank rank = 0; rank < 3; ++rank)
      most = std::max(most, MemoryOfRank(waits->plan, rank, problem.shape).total());
    tight.devices[d].room.memory = most;
  }
  const auto cannot = ChoosePlan(tight);
  REQUIRE(cannot.ok());
  CheckValid(tight, cannot->plan);
}

TEST_CASE("orders keep to the memory that is left, and where nothing is left there is none") {
  const PlanningProblem plenty = UnevenPipeline();
  const Plan plan = ThreeStages(Schedule::kOneForwardOneBackward);
  const double seconds = *PredictStepSeconds(plenty, plan), below = seconds * (1 - kLeastGain);
  const std::optional<PredictedPlan> fastest = WithSynthesisedOrder(plenty, plan, below);
  REQUIRE(fastest.has_value());
  CHECK_FALSE(WithSynthesisedOrder(plenty, plan, fastest->step_seconds).has_value());
  // What 1F1B needs, and so many micro-batches more.
  const std::vector<TimedStage> stages = MakeOrderProblem(plenty, plan)->pipeline.routes[0].stages;
  const auto with_room_for = [&](double more) {
    PlanningProblem tight = plenty;
    for (Rank rank = 0; rank < 3; ++rank) {
      const Bytes beside{static_cast<int64_t>(more * stages[rank].deferred)};
      tight.devices[rank].room.memory = MemoryOfRank(plan, rank, tight.shape).total() + beside;
    }
    return tight;
  };
  CHECK(FitsMemory(with_room_for(0), plan));
  CHECK_FALSE(FitsMemory(with_room_for(0), fastest->plan));
  CHECK_FALSE(WithSynthesisedOrder(with_room_for(0), plan, below).has_value());
  const std::optional<PredictedPlan> between = WithSynthesisedOrder(with_room_for(1), plan, below);
  REQUIRE(between.has_value());
  CheckValid(with_room_for(1), between->plan);
  CHECK(between->step_seconds > fastest->step_seconds);
}

TEST_CASE("units that routes pass more than once get an order, too") {
  PlanningProblem problem = UnevenPipeline();
  Plan plan{.schedule = Schedule::kInterleaved1F1B};
  plan.units = {{{"n/0"}, {{0, 1}, {2, 3}}}, {{"n/1"}, {{1, 2}, {3, 5}}}};
  plan.routes = {{{0, 1, 0, 1}, 6, 1}};
  const double seconds = *PredictStepSeconds(problem, plan);
  const std::optional<PredictedPlan> listed = WithSynthesisedOrder(problem, plan, seconds);
  REQUIRE(listed.has_value());
  CheckValid(problem, listed->plan);
  CHECK(listed->step_seconds < seconds);
}

TEST_CASE("what takes part in no pipeline has no order to choose") {
  PlanningProblem problem = UnevenPipeline();
  problem.constraints.max_stages = 1;
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.ok());
  CHECK(chosen->plan.schedule != Schedule::kListed);
  CHECK(chosen->orders.empty());
  CHECK(chosen->proven_optimal);
}

// The least step of all pipelines of three devices in any order, each with an order that is synthesised for it.
double BestOfAllPipelines(const PlanningProblem& problem) {
  const int blocks = problem.shape.model.blocks();
  double best = 1e9;
  std::vector<int> devices = {0, 1, 2};
  do {
    for (BlockId first = 1; first < blocks; ++first) {
      for (BlockId second = first + 1; second < blocks; ++second) {
        Plan plan = ThreeStages(Schedule::kOneForwardOneBackward);
        for (int u = 0; u < 3; ++u) plan.units[u].devices = {problem.devices[devices[u]].name};
        plan.units[0].chunks = {{0, first}};
        plan.units[1].chunks = {{first, second}};
        plan.units[2].chunks = {{second, blocks}};
        const auto listed = WithSynthesisedOrder(problem, plan, best);
        if (listed) best = listed->step_seconds;
      }
    }
  } while (std::next_permutation(devices.begin(), devices.end()));
  return best;
}

TEST_CASE(
    "the best pipelines under named schedules have one among them that is near the best with any order") {
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 6; ++trial) {
    CAPTURE(trial);
    PlanningProblem problem = UnevenPipeline();
    problem.shape.model.layers = 6;
    for (DeviceCost& device : problem.devices) {
      const double seconds = std::uniform_real_distribution<double>(1, 2)(random);
      device.times = {{{0.1 * seconds, 0.1 * seconds, 0.1 * seconds},
                       {seconds, 2 * seconds, seconds},
                       {0.3 * seconds, 0.6 * seconds}}};
    }
    const auto chosen = ChoosePlan(problem);
    REQUIRE(chosen.ok());
    CHECK(chosen->step_seconds <= 1.01 * BestOfAllPipelines(problem));
  }
}

TEST_CASE("whatever the problem, an order is valid, fits, is faster, and is found again", "[property]") {
  int ordered = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = RandomProblem(seed, {.min_devices = 2});
    const auto named = ChoosePlan(problem);
    problem.constraints.synthesised_orders = true;
    const auto chosen = ChoosePlan(problem);
    REQUIRE(chosen.ok() == named.ok());
    if (!chosen.ok()) continue;
    CheckValid(problem, chosen->plan);
    CHECK(*PredictStepSeconds(problem, chosen->plan) == chosen->step_seconds);
    if (chosen->plan.schedule != Schedule::kListed) {
      CHECK(chosen->plan == named->plan);
      CHECK(chosen->proven_optimal == named->proven_optimal);
      continue;
    }
    ++ordered;
    CHECK(chosen->step_seconds < named->step_seconds * (1 - kLeastGain));
    if (ordered <= 5) CHECK(ChoosePlan(problem)->plan == chosen->plan);
  }
  CHECK(ordered > 10);
}

TEST_CASE("a plan that is chosen for its order is told to save only what it saves itself", "[property]") {
  int ordered = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = RandomProblem(seed, {.min_devices = 2, .max_devices = 3});
    problem.constraints.saves_memory = problem.constraints.synthesised_orders = true;
    const auto chosen = ChoosePlan(problem);
    if (!chosen.ok() || chosen->plan.schedule != Schedule::kListed) continue;
    ++ordered;
    if (!chosen->plan.shards_optimizer)
      CHECK_THAT(chosen->fitting, !Catch::Contains("share the optimizer's state"));
  }
  CHECK(ordered > 5);
}

}  // namespace
}  // namespace medley
