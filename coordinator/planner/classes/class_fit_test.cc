#include "coordinator/planner/classes/class_fit.h"

#include <catch2/catch.hpp>

#include "coordinator/planner/classes/many_devices.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

// Each device has room for three quarters of the model.
PlanningProblem ThreeQuarters(int hosts) {
  PlanningProblem problem = HostsOfTwo(2 * hosts, 8);
  Plan alone;
  alone.units.push_back({{"h0/0"}, {{0, problem.shape.model.blocks()}}});
  alone.routes.push_back({{0}, 4096, 1});
  const Bytes whole = MemoryOfRank(alone, 0, problem.shape).total();
  for (DeviceCost& device : problem.devices) {
    device.room.memory = {whole.value / 4 * 3};
    device.price_per_hour = 1;
  }
  return problem;
}

TEST_CASE("what one device has no room for fits on a pipeline of two, if constraints allow these") {
  PlanningProblem problem = ThreeQuarters(2000);
  CHECK(FitsByClasses(problem, 1, /*saves=*/false));
  problem.constraints.max_stages = 1;
  CHECK_FALSE(FitsByClasses(problem, 1, /*saves=*/false));
  problem.constraints.max_stages = 0;
  problem.constraints.most_devices = 1;
  CHECK_FALSE(FitsByClasses(problem, 1, /*saves=*/false));
  problem.constraints.most_devices = 2;
  CHECK(FitsByClasses(problem, 1, /*saves=*/false));
  problem.constraints.most_price_per_hour = 1;
  CHECK_FALSE(FitsByClasses(problem, 1, /*saves=*/false));
  problem.constraints.most_price_per_hour = 2;
  CHECK(FitsByClasses(problem, 1, /*saves=*/false));
  for (DeviceCost& device : problem.devices) device.times.clear();
  CHECK_FALSE(FitsByClasses(problem, 1, /*saves=*/false));
}

TEST_CASE("units of two devices have room for twice as much, measured or not, and no host has three") {
  PlanningProblem problem = ThreeQuarters(20);
  problem.constraints.max_stages = 1;
  CHECK(FitsByClasses(problem, 2, /*saves=*/false));
  CHECK_FALSE(FitsByClasses(problem, 3, /*saves=*/false));
  problem.constraints.most_devices = 1;
  CHECK_FALSE(FitsByClasses(problem, 2, /*saves=*/false));
  problem.constraints.most_devices = 2;
  for (DeviceCost& device : problem.devices)
    device.shares.push_back({.share = AtOrigin(EvenShares(problem.shape.model, 2)[0]),
                             .room = {.memory = KiB(1)},
                             .times = device.times});
  CHECK_FALSE(FitsByClasses(problem, 2, /*saves=*/false));
}

TEST_CASE("routes that share the optimizer's state need less memory than one by itself") {
  PlanningProblem problem = ThreeQuarters(20);
  problem.constraints.max_stages = 1;
  CHECK(FitsByClasses(problem, 1, /*saves=*/true));
  problem.constraints.max_routes = 1;
  CHECK_FALSE(FitsByClasses(problem, 1, /*saves=*/true));
}

}  // namespace
}  // namespace medley
