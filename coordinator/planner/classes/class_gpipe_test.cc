// Plans of many devices where constraints allow GPipe and not 1F1B: units keep all micro-batches of their routes.
#include <catch2/catch.hpp>

#include "coordinator/planner/classes/class_fit.h"
#include "coordinator/planner/classes/class_planner.h"
#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

PlanningProblem UnderGPipe(uint64_t seed, int devices) {
  PlanningProblem problem = ManyDevices(seed, devices);
  problem.constraints.schedules = {Schedule::kGPipe};
  return problem;
}

TEST_CASE("plans of many devices under gpipe are valid, fit, and are predicted as whole ones are") {
  int planned = 0, pipelines = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const PlanningProblem problem = UnderGPipe(seed, 18 + static_cast<int>(seed % 3) * 6);
    INFO("seed " << seed << ", " << problem.devices.size() << " devices");
    const absl::StatusOr<ChosenPlan> found = ChoosePlan(problem);
    if (absl::IsResourceExhausted(found.status())) continue;
    REQUIRE(found.status().ToString() == "OK");
    ++planned;
    INFO(found->fitting);
    CHECK(found->plan.schedule == Schedule::kGPipe);
    CHECK(SequencesOf(found->plan) == problem.shape.global_batch_sequences);
    CHECK(FitsMemory(problem, found->plan));
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.005));
    CHECK(found->lower_bound_seconds <= *whole);
    CHECK_FALSE(found->bound_under_1f1b_alone);
    pipelines += found->plan.routes[0].units.size() > 1 ? 1 : 0;
  }
  CHECK(planned >= 14);
  CHECK(pipelines >= 4);
}

TEST_CASE("of few devices plans by classes under gpipe are nearly as fast as those of the whole search") {
  double sum = 0;
  int count = 0;
  for (uint64_t seed = 100; seed < 125; ++seed) {
    INFO("seed " << seed);
    PlanningProblem problem = UnderGPipe(seed, 4);
    for (DeviceCost& device : problem.devices) device.shares.clear();
    const absl::StatusOr<ChosenPlan> searched = ChoosePlan(problem);
    const absl::StatusOr<PlanByClass> by_classes = PlanByClasses(problem);
    if (!searched.ok() || !by_classes.ok()) continue;
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, by_classes->plan);
    REQUIRE(whole.ok());
    CHECK(by_classes->lower_bound_seconds <= searched->step_seconds * 1.0001);
    sum += *whole / searched->step_seconds;
    ++count;
  }
  REQUIRE(count >= 12);
  CHECK(sum / count < 1.1);
}

TEST_CASE(
    "under gpipe more routes have room where one keeps too many micro-batches, and more of the batch does "
    "not fit") {
  PlanningProblem problem = UnderGPipe(1, 16);
  problem.constraints.saves_memory = false;
  problem.micro_batch_sizes = {1};
  problem.shape.global_batch_sequences = 1 << 14;
  Plan alone;
  alone.schedule = Schedule::kGPipe;
  alone.units.push_back({{problem.devices[0].name}, {{0, problem.shape.model.blocks()}}});
  alone.routes.push_back({{0}, problem.shape.global_batch_sequences / 8, 1});
  for (DeviceCost& device : problem.devices) {
    device.room = {.memory = MemoryOfRank(alone, 0, problem.shape).total()};
    device.shares.clear();
  }
  problem.constraints.max_stages = 1;
  CHECK(FitsByClasses(problem, 1, /*saves=*/false));
  problem.constraints.max_routes = 4;
  CHECK_FALSE(FitsByClasses(problem, 1, /*saves=*/false));
  CHECK(absl::IsResourceExhausted(PlanByClasses(problem).status()));
  problem.constraints.schedules = {Schedule::kOneForwardOneBackward};
  CHECK(FitsByClasses(problem, 1, /*saves=*/false));
}

}  // namespace
}  // namespace medley
