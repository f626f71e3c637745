#include "coordinator/planner/classes/class_planner.h"

#include <catch2/catch.hpp>

#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/classes/master.h"
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/plan/check_plan.h"

namespace medley {
namespace {

int SequencesOf(const Plan& plan) {
  int sequences = 0;
  for (const Route& route : plan.routes) sequences += route.micro_batches * route.micro_batch_sequences;
  return sequences;
}

TEST_CASE("plans of many devices are valid, fit, and are predicted as whole ones are") {
  int planned = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const PlanningProblem problem = ManyDevices(seed, 12 + static_cast<int>(seed % 3) * 6);
    INFO("seed " << seed << ", " << problem.devices.size() << " devices");
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (absl::IsResourceExhausted(found.status())) continue;
    REQUIRE(found.status().ToString() == "OK");
    ++planned;
    INFO(found->summary);
    CHECK(SequencesOf(found->plan) == problem.shape.global_batch_sequences);
    CHECK(FitsMemory(problem, found->plan));
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.05));
    CHECK(found->lower_bound_seconds <= *whole);
    const absl::StatusOr<PlanByClass> again = PlanByClasses(problem);
    REQUIRE(again.ok());
    CHECK(again->plan == found->plan);
  }
  CHECK(planned >= 20);
}

TEST_CASE("of few devices plans by classes are nearly as fast as those of the whole search") {
  double sum = 0;
  int count = 0;
  for (uint64_t seed = 100; seed < 130; ++seed) {
    const PlanningProblem problem = ManyDevices(seed, 4);
    INFO("seed " << seed);
    const absl::StatusOr<ChosenPlan> best = ChoosePlan(problem);
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (!best.ok() || !found.ok()) continue;
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.ok());
    const double slower = *whole / best->step_seconds;
    CHECK(slower < 1.5);
    sum += slower;
    ++count;
  }
  REQUIRE(count >= 15);
  CHECK(sum / count < 1.1);
}

TEST_CASE("devices are of one class if they cost the same and reach others alike") {
  const PlanningProblem problem = ManyDevices(7, 24);
  const std::vector<DeviceClass> classes = DeviceClassesOf(problem);
  size_t kinds = 0, devices = 0;
  for (const DeviceClass& of : classes) {
    for (const std::vector<int>& host : of.hosts) {
      for (const int d : host) CHECK(problem.devices[d].kind == problem.devices[of.first()].kind);
    }
    devices += of.devices;
    ++kinds;
  }
  CHECK(devices == problem.devices.size());
  CHECK(kinds == static_cast<size_t>(problem.links.ends()));
}

TEST_CASE("nothing that fits is said so") {
  PlanningProblem problem = ManyDevices(3, 18);
  for (DeviceCost& device : problem.devices) {
    device.room.memory = KiB(16);
    for (ShareCost& share : device.shares) share.room.memory = KiB(16);
  }
  const absl::Status status = PlanByClasses(problem).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("18 devices"));
}

TEST_CASE("the master finds how many routes of each shape do the most") {
  // Of two classes with 4 and 6 devices: a shape of one of each, and one of two of the second.
  const std::vector<MasterColumn> columns = {{{1, 1}, 3}, {{0, 2}, 2}};
  const MasterRelaxation relaxed = SolveRelaxed(columns, {4, 6}, 10);
  CHECK(relaxed.value == Approx(14));
  CHECK(relaxed.amounts[0] == Approx(4));
  CHECK(relaxed.prices[0] == Approx(2));
  CHECK(relaxed.prices[1] == Approx(1));
  CHECK(SolveWhole(columns, {4, 6}, 10, 14, 100) == std::vector<int>{4, 1});
  CHECK(SolveWhole(columns, {4, 6}, 10, 15, 100).empty());
  CHECK(SolveWhole(columns, {4, 6}, 4, 14, 100).empty());
}

}  // namespace
}  // namespace medley
