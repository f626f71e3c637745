#include "coordinator/planner/goal.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "coordinator/planner/brute_force.h"
#include "coordinator/planner/random_problem.h"
#include "coordinator/predictor/predict.h"

namespace medley {
namespace {

using Catch::Contains;

constexpr RandomProblemOptions kPriced = {.prices = RandomPrices::kWithLimits};

// Two devices that do all the work in 10 s and in 40 s, at 8 and 1 an hour, with memory for anything; together they do
// it in 8 s.
PlanningProblem FastAndCheap() {
  PlanningProblem problem = RandomProblem(5, AlikeDevices(2));
  problem.shape.model.layers = 4;
  problem.shape.global_batch_sequences = 10;
  problem.micro_batch_sizes = {1};
  problem.links = DeviceLinks(2);
  const double layers = problem.shape.model.layers;
  for (int d = 0; d < 2; ++d) {
    DeviceCost& device = problem.devices[d];
    const double seconds = (d == 0 ? 10 : 40) / (10 * layers);
    device.times = {{.layer = {seconds / 2, seconds / 2, seconds / 4}}};
    device.update_seconds_per_parameter = 0;
    device.norm_seconds_per_parameter = 0;
    device.price_per_hour = d == 0 ? 8 : 1;
  }
  return problem;
}

TEST_CASE("the least cost by a deadline is that of the best of all plans", "[property]") {
  int compared = 0, not_fastest = 0, late = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, kPriced);
    const absl::StatusOr<ChosenPlan> fastest = ChoosePlan(problem);
    if (!fastest.ok() || PricePerHour(problem, fastest->plan) == 0) continue;
    // Some cannot be kept.
    const double slack = 0.9 + static_cast<double>(seed % 10) * 0.2;
    const PlanGoal goal = {Objective::kCost, 100, 100 * fastest->step_seconds * slack};
    double least = std::numeric_limits<double>::infinity();
    int64_t plans = 0;
    VisitEveryPlan(problem, SameKind::kAllOrders, [&](const Plan& plan) {
      const absl::StatusOr<double> seconds = PredictStepSeconds(problem, plan);
      if (seconds.ok() && *seconds <= goal.slowest_step_seconds() && FitsMemory(problem, plan))
        least = std::min(least, *seconds * PricePerHour(problem, plan));
      return ++plans < 20'000;
    });
    if (plans >= 20'000) continue;
    const absl::StatusOr<PlanForGoal> chosen = ChoosePlanFor(goal, problem);
    REQUIRE(chosen.ok() == !std::isinf(least));
    if (!chosen.ok()) {
      CHECK_THAT(std::string(chosen.status().message()), Contains("constraints.deadline_seconds"));
      ++late;
      continue;
    }
    ++compared;
    CHECK(chosen->chosen.step_seconds <= goal.slowest_step_seconds());
    const double cost = chosen->chosen.step_seconds * PricePerHour(problem, chosen->chosen.plan);
    CHECK(cost <= 1.01 * least * (1 + 1e-9));
    CHECK(chosen->chosen.proven_optimal == (cost <= least * (1 + 1e-9)));
    if (chosen->chosen.step_seconds > fastest->step_seconds * (1 + 1e-9)) ++not_fastest;
  }
  CHECK(compared > 40);
  CHECK(not_fastest > 10);
  CHECK(late > 2);
}

TEST_CASE("a deadline of many devices is held against what is reported") {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, AlikeDevices(20));
    const absl::StatusOr<PlanForGoal> fastest = ChoosePlanFor({}, problem);
    REQUIRE(fastest.ok());
    const double step_seconds = *PredictStepSeconds(problem, fastest->chosen.plan);
    const auto in_time = [&](double seconds) {
      return ChoosePlanFor({Objective::kThroughput, 100, 100 * seconds}, problem).ok();
    };
    CHECK(in_time(step_seconds * (1 + 1e-6)));
    CHECK_FALSE(in_time(step_seconds * (1 - 1e-6)));
  }
}

TEST_CASE("the fastest plan, the cheapest, and the cheapest in time are told apart") {
  const PlanningProblem problem = FastAndCheap();
  const auto devices_for = [&](const PlanGoal& goal) {
    const absl::StatusOr<PlanForGoal> chosen = ChoosePlanFor(goal, problem);
    REQUIRE(chosen.ok());
    return DevicesOf(chosen->chosen.plan);
  };
  CHECK(devices_for({}).size() == 2);
  CHECK(devices_for({Objective::kCost, 100, 0}) == std::vector<std::string>{"n/1"});     // 40 s at 1
  CHECK(devices_for({Objective::kCost, 100, 2000}) != std::vector<std::string>{"n/1"});  // 20 s at most
}

TEST_CASE("a job that has begun is held to the steps and the time that it has left") {
  const PlanningProblem problem = FastAndCheap();
  const auto choose = [&](Objective objective, double deadline_seconds, const JobSoFar& so_far) {
    const absl::StatusOr<PlanForGoal> chosen =
        ChoosePlanFor({objective, /*steps=*/100, deadline_seconds, so_far}, problem);
    INFO(chosen.status().ToString());
    REQUIRE(chosen.ok());
    return *chosen;
  };
  // All steps take 800 s at least.
  CHECK_FALSE(ChoosePlanFor({Objective::kThroughput, 100, 700}, problem).ok());
  CHECK(choose(Objective::kThroughput, 700, {.steps = 95, .seconds = 600}).late.empty());
  CHECK(choose(Objective::kThroughput, 700, {.steps = 95, .seconds = 690}).late ==
        "constraints.deadline_seconds: 700 (11.67 min), of which steps have taken 11.5 min; the fastest plan "
        "that was found needs 40 s for 5 more steps");

  const std::vector<std::string> cheapest = {"n/1"};  // 40 s a step
  for (const auto& [so_far, is_cheapest, is_late] :
       std::vector<std::tuple<JobSoFar, bool, bool>>{
           {{}, false, false},
           {{.steps = 90, .seconds = 500}, true, false},    // 50 s a step
           {{.steps = 0, .seconds = 150}, false, false},    // 8.5 s a step
           {{.steps = 10, .seconds = 500}, false, true},    // 5.6 s a step
           {{.steps = 99, .seconds = 1000}, false, true},   // none
           {{.steps = 99, .seconds = 2000}, false, true}})  // none since long ago
  {
    CAPTURE(so_far.steps, so_far.seconds);
    const PlanForGoal chosen = choose(Objective::kCost, 1000, so_far);
    CHECK((DevicesOf(chosen.chosen.plan) == cheapest) == is_cheapest);
    CHECK(!chosen.late.empty() == is_late);
    if (is_late) CHECK(chosen.chosen.plan == ChoosePlan(problem)->plan);
  }
}

TEST_CASE("limits that nothing keeps are told with what there is") {
  PlanningProblem problem = FastAndCheap();
  const auto refusal = [&](const PlanGoal& goal) {
    const absl::Status status = ChoosePlanFor(goal, problem).status();
    CHECK(ChoosePlanFor(goal, problem, ParetoListing::kWanted).status() == status);
    return status;
  };
  const absl::Status late = refusal({Objective::kThroughput, 1000, 60});
  CHECK(absl::IsResourceExhausted(late));
  CHECK_THAT(
      std::string(late.message()),
      Contains("constraints.deadline_seconds: 60 (60 s); the fastest plan") && Contains(" h for 1000 steps"));
  CHECK(refusal({Objective::kCost, 1000, 60}) == late);

  problem.constraints.most_price_per_hour = 0.25;
  const absl::Status dear = refusal({});
  CHECK(absl::IsResourceExhausted(dear));
  CHECK(dear.message() ==
        "constraints.most_price_per_hour: 0.25; nothing fits for so little, the cheapest plan that was found "
        "costs 1 an "
        "hour");
  CHECK(refusal({Objective::kCost, 10, 0}) == dear);

  // Each by itself has a little less than all needs.
  problem.constraints = {};
  PlanningProblem alone = problem;
  alone.constraints.most_devices = 1;
  while (ChoosePlan(alone).ok()) {
    for (DeviceCost& device : alone.devices) device.room.memory.value = device.room.memory.value * 49 / 50;
  }
  problem = alone;
  const absl::Status few = refusal({});
  CHECK(absl::IsResourceExhausted(few));
  CHECK(few.message() ==
        "constraints.most_devices: 1; nothing fits on so few, the smallest plan that was found has 2");
  problem.constraints.most_price_per_hour = 5;
  CHECK_THAT(
      std::string(refusal({}).message()),
      Contains("constraints.most_price_per_hour: 5, constraints.most_devices: 1; nothing fits with either") &&
          Contains("has 2 devices and costs 9 an hour"));

  for (DeviceCost& device : problem.devices) device.price_per_hour = 0;
  const absl::Status unpriced = refusal({Objective::kCost, 10, 0});
  CHECK(absl::IsFailedPrecondition(unpriced));
  CHECK_THAT(std::string(unpriced.message()), Contains("objective: cost; no device has a price_per_hour"));
  CHECK_THAT(std::string(refusal({}).message()),
             Contains("constraints.most_price_per_hour: 5; no device has"));
}

}  // namespace
}  // namespace medley
