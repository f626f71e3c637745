// Lower bounds of plans by classes, of devices whose steps can be told by hand.
#include <catch2/catch.hpp>

#include "coordinator/planner/classes/class_planner.h"
#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

TEST_CASE("the lower bound is near what cannot be done faster") {
  // 20 replicas of one device, three micro-batches of 4 layers each.
  PlanningProblem problem = Alike(20, 4, 60);
  absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds == Approx(36));
  CHECK(found->lower_bound_seconds <= 36);
  CHECK(found->lower_bound_seconds > 0.98 * 36);
  // One route of all: 40 micro-batches on their way through 20 stages of 3 seconds. All 20 would be busy for 120.
  problem = Alike(20, 20, 40);
  problem.constraints.max_routes = 1;
  found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds == Approx((40 + 19) * 3));
  CHECK(found->lower_bound_seconds <= (40 + 19) * 3);
  CHECK(found->lower_bound_seconds > 130);
}

TEST_CASE("where other schedules are allowed, too, it is said that the lower bound is one under 1F1B") {
  PlanningProblem problem = Alike(20, 20, 40);
  problem.constraints.max_routes = 1;
  const absl::StatusOr<ChosenPlan> any = ChoosePlan(problem);
  REQUIRE(any.status().ToString() == "OK");
  CHECK(any->lower_bound_seconds > 130);
  CHECK(any->bound_under_1f1b_alone);
  problem.constraints.schedules = {Schedule::kOneForwardOneBackward};
  const absl::StatusOr<ChosenPlan> only = ChoosePlan(problem);
  REQUIRE(only.status().ToString() == "OK");
  CHECK_FALSE(only->bound_under_1f1b_alone);
  // Nobody is done before all have computed, in whatever order.
  const absl::StatusOr<ChosenPlan> busy = ChoosePlan(Alike(20, 4, 60));
  REQUIRE(busy.status().ToString() == "OK");
  CHECK(busy->lower_bound_seconds == Approx(36));
  CHECK_FALSE(busy->bound_under_1f1b_alone);
}

TEST_CASE("the lower bound is one of routes with more stages than are searched, too") {
  // As above, with more layers and devices than a route has stages that are looked at.
  PlanningProblem problem = Alike(60, 60, 120);
  problem.constraints.max_routes = 1;
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds >= found->lower_bound_seconds);
  CHECK(found->lower_bound_seconds <= (120 + 59) * 3);
  CHECK(found->lower_bound_seconds >= 0.99 * 120 * 3);
}

TEST_CASE("the lower bound has what sums of gradients take") {
  // 20 replicas of one device: three micro-batches of 4 layers, and then sums that the last backward, of 8 seconds, hides
  // a part of.
  PlanningProblem problem = Alike(20, 4, 60);
  const LinkModel link = LinkModel::Line(0, 1e5);
  problem.links.SetBetweenHosts(0, 0, {link, link});
  for (DeviceCost& device : problem.devices) device.network_cards = 1;
  problem.constraints.max_stages = 1;
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds > 36 + 10);
  CHECK(found->lower_bound_seconds <= found->step_seconds);
  CHECK(found->lower_bound_seconds > 42);
}

// Twenty devices near each other and four of another kind, far from them but not from each other.
PlanningProblem NearAndFar(const LinkModel& between) {
  PlanningProblem problem = Alike(24, 4, 80);
  std::vector<int> ends, hosts;
  for (int d = 0; d < 24; ++d) {
    ends.push_back(d < 20 ? 0 : 1);
    hosts.push_back(d);
    problem.devices[d].kind = d < 20 ? "near" : "far";
  }
  problem.links = DeviceLinks(ends, hosts, 2);
  const LinkModel fast = LinkModel::Line(0, 1e15);
  problem.links.SetBetweenHosts(0, 0, {fast, fast});
  problem.links.SetBetweenHosts(1, 1, {fast, fast});
  problem.links.SetBetweenHosts(1, 0, {between, between});
  return problem;
}

TEST_CASE("devices behind slow links are left out where sums over them cost more than they do") {
  const PlanningProblem problem = NearAndFar(LinkModel::Line(50, 1e15));
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds == Approx(48));  // four micro-batches of 12 seconds on 20 devices
}

TEST_CASE("what a site far away cannot help with is no part of the bound") {
  // Sums over both sites take longer than a step at one.
  const double elements = static_cast<double>(ModelElements(Alike(24, 4, 80).shape.model));
  PlanningProblem problem = NearAndFar(LinkModel::Line(0, 4 * elements / 200));
  for (int d = 0; d < 24; ++d) {
    problem.devices[d].host = d;
    problem.devices[d].site = d < 20 ? 0 : 1;
    problem.devices[d].network_cards = 1;
  }
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->step_seconds == Approx(48));  // four micro-batches of 12 seconds on 20 devices
  // Few sequences can cross, and less than a micro-batch for each device is none.
  CHECK(found->lower_bound_seconds > 46);
  CHECK(found->lower_bound_seconds <= found->step_seconds);
}

TEST_CASE("the bound of plans that share has what all wait for that share with hosts of few cards") {
  // Four hosts of four devices with four cards, and two with one; one micro-batch of 8 layers takes 24 seconds. No device has room
  // for all of the optimizer's state, and routes have one stage.
  PlanningProblem problem = ManyCardsAndOne(/*on_host=*/4, 72);
  problem.constraints.max_stages = 1;
  problem.constraints.saves_memory = true;
  for (DeviceCost& device : problem.devices)
    device.room.memory = Bytes{13 * ModelElements(problem.shape.model)};
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  INFO(found->summary);
  // All replicas, each with three micro-batches, as one would plan them by hand.
  Plan replicas{.shards_optimizer = true};
  for (int d = 0; d < 24; ++d) {
    replicas.units.push_back({.devices = {problem.devices[d].name}, .chunks = {{0, 10}}});
    replicas.routes.push_back({{d}, 3, 1});
  }
  REQUIRE(FitsMemory(problem, replicas));
  const absl::StatusOr<double> by_hand = PredictStepSeconds(problem, replicas);
  REQUIRE(by_hand.status().ToString() == "OK");
  CHECK(found->lower_bound_seconds <= *by_hand);
  CHECK(found->step_seconds <= *by_hand * 1.001);
  // Who plans for 16 devices alone needs five micro-batches, 120 seconds. Of others more than half of the layers come to the last hosts by one
  // card, 13 in 17 of four seconds each: the first forward of 8 seconds ends no sooner than five of them are there.
  CHECK(found->lower_bound_seconds > 72 + 5 * 4 * 13.0 / 17 - 8);
}

}  // namespace
}  // namespace medley
