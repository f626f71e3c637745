// Plans by classes of devices that have no room for all layers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "coordinator/planner/classes/class_planner.h"
#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/plan/check_plan.h"

namespace medley {
namespace {

// Of more layers than devices hold, whose copies take as long as computing with so many bytes a second.
PlanningProblem TooManyLayers(double copied_bytes_per_second) {
  PlanningProblem problem = Alike(18, 90, 36);
  problem.constraints.saves_memory = true;
  for (DeviceCost& device : problem.devices) {
    device.room.memory = KiB(3500);
    device.update_seconds_per_parameter = 1e-6;
    device.norm_seconds_per_parameter = 2e-7;
    device.fetch_bytes_per_second = copied_bytes_per_second;
    device.store_bytes_per_second = 1.5 * copied_bytes_per_second;
    device.host_memory = MiB(8);
  }
  return problem;
}

std::string Objections(const PlanningProblem& problem, const Plan& plan) {
  std::string text;
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, SiteOf(problem)))
    text += violation.detail + "; ";
  return text;
}

TEST_CASE("where nothing fits otherwise layers live in host memory") {
  for (const double bytes_per_second : {1e7, 3e5, 1e5}) {
    INFO(bytes_per_second << " bytes a second");
    const PlanningProblem problem = TooManyLayers(bytes_per_second);
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    REQUIRE(found.status().ToString() == "OK");
    INFO(found->summary);
    CHECK(Objections(problem, found->plan).empty());
    CHECK(FitsMemory(problem, found->plan));
    const auto on_host = std::count_if(found->plan.units.begin(), found->plan.units.end(),
                                       [](const Unit& unit) { return unit.lives_on_host(); });
    CHECK(on_host > 0);
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.05));
    CHECK(found->lower_bound_seconds <= *whole);
    CHECK(found->lower_bound_seconds > 0);
    const absl::StatusOr<PlanByClass> again = PlanByClasses(problem);
    REQUIRE(again.ok());
    CHECK(again->plan == found->plan);
  }
}

TEST_CASE("plans of many devices with layers in host memory are valid and are predicted as whole ones are") {
  int planned = 0, replicas = 0, shared = 0;
  for (uint64_t seed = 3; seed <= 12; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 12 + static_cast<int>(seed % 2) * 6);
    problem.constraints.saves_memory = true;
    problem.shape.model.layers = 36 + static_cast<int>(seed % 7) * 8;
    problem.shape.global_batch_sequences = 32;
    for (DeviceCost& device : problem.devices) {
      const bool first_kind = device.kind == "kind 0";
      device.room.memory = KiB(2600 + 300 * static_cast<int>(seed % 4) + (first_kind ? 400 : 0));
      for (ShareCost& share : device.shares) share.room.memory = device.room.memory;
      device.fetch_bytes_per_second = first_kind ? 1e6 : 4e5;
      device.store_bytes_per_second = first_kind ? 7e5 : 6e5;
      device.norm_seconds_per_parameter = 2e-8;
      device.host_memory = MiB(40);
    }
    INFO("seed " << seed << ", " << problem.devices.size() << " devices");
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (absl::IsResourceExhausted(found.status())) continue;
    REQUIRE(found.status().ToString() == "OK");
    if (std::none_of(found->plan.units.begin(), found->plan.units.end(),
                     [](const Unit& unit) { return unit.lives_on_host(); }))
      continue;
    ++planned;
    replicas += found->plan.routes.size() > 1 ? 1 : 0;
    shared += std::any_of(found->plan.units.begin(), found->plan.units.end(),
                          [](const Unit& unit) { return unit.lives_on_host() && unit.devices.size() > 1; });
    INFO(found->summary);
    CHECK(SequencesOf(found->plan) == problem.shape.global_batch_sequences);
    CHECK(Objections(problem, found->plan) == "");
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.03));
    CHECK(found->lower_bound_seconds <= *whole);
  }
  CHECK(planned >= 5);
  CHECK(replicas >= 2);
  CHECK(shared >= 2);
}

TEST_CASE("layers live in host memory only where that is allowed, measured, and there is enough of it") {
  PlanningProblem problem = TooManyLayers(1e7);
  problem.constraints.saves_memory = false;
  CHECK(absl::IsResourceExhausted(PlanByClasses(problem).status()));
  problem = TooManyLayers(0);
  CHECK(absl::IsResourceExhausted(PlanByClasses(problem).status()));
  problem = TooManyLayers(1e7);
  for (DeviceCost& device : problem.devices) device.host_memory = MiB(2);
  const absl::Status status = ChoosePlan(problem).status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("with more host memory than the 2.0 MiB that "));
}

}  // namespace
}  // namespace medley
