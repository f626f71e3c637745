#include "coordinator/planner/least_change.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "coordinator/planner/random_problem.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/work_bound.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/check_plan.h"

namespace medley {
namespace {

// `plan` with each device's place taken by the next one's.
Plan Turned(const PlanningProblem& problem, Plan plan) {
  for (Unit& unit : plan.units) {
    for (std::string& device : unit.devices) {
      const auto at = std::find_if(problem.devices.begin(), problem.devices.end(),
                                   [&](const DeviceCost& cost) { return cost.name == device; });
      const size_t next = (at - problem.devices.begin() + 1) % problem.devices.size();
      device = problem.devices[next].name;
    }
  }
  return plan;
}

PlanningProblem Without(PlanningProblem problem, const std::string& device) {
  const auto lost = std::find_if(problem.devices.begin(), problem.devices.end(),
                                 [&](const DeviceCost& cost) { return cost.name == device; });
  const int index = static_cast<int>(lost - problem.devices.begin());
  const int left = static_cast<int>(problem.devices.size()) - 1;
  DeviceLinks links(left, {problem.links.Between(0, 1)});
  problem.devices.erase(problem.devices.begin() + index);
  problem.links = links;
  return problem;
}

TEST_CASE("a plan that is as fast as the fastest stays as it is") {
  int turned = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, AlikeDevices(4));
    const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
    REQUIRE(chosen.ok());
    const Plan running = Turned(problem, chosen->plan);
    turned += !(running == chosen->plan);
    const ChosenPlan stays = WithLeastChange(problem, running, *chosen);
    CHECK(stays.plan == running);
    CHECK(stays.step_seconds == *PredictStepSeconds(problem, running));
    CHECK(stays.lower_bound_seconds <= stays.step_seconds);
  }
  CHECK(turned > 20);
}

TEST_CASE(
    "nothing is proven of a plan that stays and has an order of its own, and its bound is one of any order") {
  PlanningProblem problem = UnevenPipeline();
  problem.constraints.synthesised_orders = false;
  const absl::StatusOr<ChosenPlan> named = ChoosePlan(problem);
  problem.constraints.synthesised_orders = true;
  const absl::StatusOr<ChosenPlan> ordered = ChoosePlan(problem);
  REQUIRE(named.ok());
  REQUIRE(ordered.ok());
  REQUIRE(named->proven_optimal);
  REQUIRE(ordered->plan.schedule == Schedule::kListed);
  const ChosenPlan stays = WithLeastChange(problem, ordered->plan, *named);
  CHECK(stays.plan == ordered->plan);
  CHECK_FALSE(stays.proven_optimal);
  CHECK(stays.lower_bound_seconds <= WorkSeconds(problem) * (1 + 1e-9));
  CHECK_THAT(stays.orders, Catch::Contains("nothing is proven"));
  // And the other way round.
  ChosenPlan as_fast = *ordered;
  as_fast.step_seconds = named->step_seconds;
  const ChosenPlan back = WithLeastChange(problem, named->plan, as_fast);
  CHECK(back.plan == named->plan);
  CHECK_FALSE(back.proven_optimal);
  CHECK(back.lower_bound_seconds <= back.step_seconds);
  CHECK_THAT(back.orders, Catch::Contains("named schedule"));
}

TEST_CASE("one that is slower by more, or that the constraints forbid, does not") {
  PlanningProblem problem = RandomProblem(3, AlikeDevices(4));
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  REQUIRE(chosen.ok());
  ChosenPlan faster = *chosen;
  const Plan running = Turned(problem, chosen->plan);
  faster.step_seconds = chosen->step_seconds / (1 + 2 * kAsFast);
  CHECK_FALSE(WithLeastChange(problem, running, faster).step_seconds > faster.step_seconds);
  problem.constraints.most_devices = static_cast<int>(DevicesOf(running).size()) - 1;
  const absl::StatusOr<ChosenPlan> smaller = ChoosePlan(problem);
  REQUIRE(smaller.ok());
  const ChosenPlan allowed = WithLeastChange(problem, running, *smaller);
  CHECK(static_cast<int>(DevicesOf(allowed.plan).size()) <= problem.constraints.most_devices);
}

// A plan of alike devices that runs, what is left when its first device is lost, and what is chosen for that.
struct Loss {
  Plan running;
  PlanningProblem left;
  ChosenPlan chosen;
};
Loss LoseADevice(uint64_t seed, int devices) {
  const PlanningProblem problem = RandomProblem(seed, AlikeDevices(devices));
  const absl::StatusOr<ChosenPlan> first = ChoosePlan(problem);
  REQUIRE(first.ok());
  Loss loss{.running = Turned(problem, first->plan)};
  loss.left = Without(problem, DevicesOf(loss.running).front());
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(loss.left);
  REQUIRE(chosen.ok());
  loss.chosen = *chosen;
  return loss;
}

TEST_CASE("where a device was lost the others keep as many of their blocks as they can", "[property]") {
  int kept = 0, kept_before = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const auto [running, left, chosen] = LoseADevice(seed, 6);
    const ChosenPlan least = WithLeastChange(left, running, chosen);
    CAPTURE(Describe(running), Describe(chosen.plan), Describe(least.plan));
    CHECK(CheckPlanForm(least.plan, left.shape).empty());
    CHECK(FitsMemory(left, least.plan));
    CHECK(least.step_seconds == Approx(*PredictStepSeconds(left, least.plan)));
    CHECK(least.step_seconds <= chosen.step_seconds * (1 + kAsFast));
    CHECK(DevicesThatKeep(running, least.plan) >= DevicesThatKeep(running, chosen.plan));
    kept += DevicesThatKeep(running, least.plan);
    kept_before += DevicesThatKeep(running, chosen.plan);
  }
  CHECK(kept > kept_before);
}

TEST_CASE("plans of many devices, too, are compared by what is reported of them") {
  int estimated_otherwise = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    const auto [running, left, chosen] = LoseADevice(seed, 20);
    // As it is reported, and not as it was estimated among others.
    CHECK(chosen.step_seconds == *PredictStepSeconds(left, chosen.plan));
    CHECK(chosen.lower_bound_seconds <= chosen.step_seconds);
    estimated_otherwise += *AlikeRoutePredictor(left).Predict(chosen.plan) != chosen.step_seconds;
    const ChosenPlan least = WithLeastChange(left, running, chosen);
    CHECK(least.step_seconds == *PredictStepSeconds(left, least.plan));
    CHECK(least.step_seconds <= chosen.step_seconds * (1 + kAsFast));
    CHECK(DevicesThatKeep(running, least.plan) >= DevicesThatKeep(running, chosen.plan));
  }
  CHECK(estimated_otherwise > 0);
}

TEST_CASE("of a hundred devices all that were not lost keep their blocks, however the new plan has them") {
  PlanningProblem problem = RandomProblem(1, AlikeDevices(100));
  const int blocks = problem.shape.model.layers + 2, size = problem.micro_batch_sizes.front();
  problem.shape.global_batch_sequences = 50 * size;
  problem.micro_batch_sizes = {size};
  for (DeviceCost& device : problem.devices) device.times.resize(1);
  ChosenPlan chosen;
  for (int r = 0; r < 50; ++r) {
    for (int stage = 0; stage < 2; ++stage) {
      const DeviceCost& device = problem.devices[2 * r + stage];
      chosen.plan.units.push_back({.devices = {device.name},
                                   .chunks = {stage == 0 ? BlockRange{0, 1} : BlockRange{1, blocks}},
                                   .activations = device.activations});
    }
    chosen.plan.routes.push_back({{2 * r, 2 * r + 1}, 1, size});
  }
  chosen.step_seconds = *PredictStepSeconds(problem, chosen.plan);
  Plan running = Turned(problem, chosen.plan);
  running.units.push_back(running.units.front());
  running.units.back().devices = {"lost"};
  CHECK(DevicesThatKeep(running, chosen.plan) == 0);
  const ChosenPlan least = WithLeastChange(problem, running, chosen);
  CHECK(DevicesThatKeep(running, least.plan) == 100);
  CHECK(least.step_seconds == Approx(chosen.step_seconds).epsilon(1e-9));
}

TEST_CASE("units of several devices stay together when another lost one of its own") {
  PlanningProblem problem = RandomProblem(1, AlikeDevices(16));
  const int blocks = problem.shape.model.layers + 2, size = problem.micro_batch_sizes.front();
  problem.shape.global_batch_sequences = 12 * size;
  problem.micro_batch_sizes = {size};
  for (DeviceCost& device : problem.devices) {
    device.times.resize(1);
    for (const ModelShare& share : EvenShares(problem.shape.model, 2))
      device.shares.push_back({.share = AtOrigin(share), .room = device.room, .times = device.times});
  }
  // Routes of two stages, each on the two devices of a host.
  const auto routes_on = [&](const std::vector<int>& hosts) {
    Plan plan;
    for (const int host : hosts) {
      const bool is_first = plan.units.size() % 2 == 0;
      plan.units.push_back({.devices = {problem.devices[2 * host].name, problem.devices[2 * host + 1].name},
                            .chunks = {is_first ? BlockRange{0, 1} : BlockRange{1, blocks}},
                            .activations = problem.devices[0].activations});
      const int unit = static_cast<int>(plan.units.size()) - 1;
      if (!is_first) plan.routes.push_back({{unit - 1, unit}, 24 / static_cast<int>(hosts.size()), size});
    }
    return plan;
  };
  const Plan running = routes_on({0, 1, 2, 3, 4, 5, 6, 7});
  const PlanningProblem left = Without(problem, problem.devices[5].name);  // of the third host
  ChosenPlan chosen;
  chosen.plan = routes_on({0, 1, 3, 4, 5, 6});
  const absl::StatusOr<double> seconds = PredictStepSeconds(left, chosen.plan);
  REQUIRE(seconds.status().ToString() == "OK");
  chosen.step_seconds = *seconds;
  const ChosenPlan least = WithLeastChange(left, running, chosen);
  CAPTURE(Describe(least.plan));
  CHECK(DevicesThatKeep(running, least.plan) == 12);
  for (const Unit& unit : least.plan.units)
    CHECK(std::ranges::any_of(running.units,
                              [&](const Unit& before) { return before.devices == unit.devices; }));
}

TEST_CASE("a job that has not run gets the fastest plan") {
  const PlanningProblem problem = RandomProblem(1, AlikeDevices(3));
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  REQUIRE(chosen.ok());
  CHECK(WithLeastChange(problem, {}, *chosen).plan == chosen->plan);
  CHECK(DevicesThatKeep({}, chosen->plan) == 0);
}

}  // namespace
}  // namespace medley
