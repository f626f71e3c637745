#include "coordinator/planner/planner.h"

#include <catch2/catch.hpp>

#include "coordinator/planner/brute_force.h"
#include "coordinator/planner/random_problem.h"
#include "runtime/model/parameters.h"
#include "runtime/plan/check_plan.h"

namespace medley {
namespace {

PlanSite SiteOf(const PlanningProblem& problem) {
  PlanSite site;
  for (const DeviceCost& device : problem.devices) {
    site.memory_by_device[device.name] = device.memory - device.workspace;
    site.copy_bytes_per_parameter_by_device[device.name] = device.copy_bytes_per_parameter;
  }
  return site;
}

// Counts the problems that were compared, so that a test cannot pass by comparing none.
void CompareWithBruteForce(const PlanningProblem& problem, SameKind same_kind, int64_t most_plans, int& compared) {
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  if (chosen.ok()) {
    for (const PlanViolation& violation : CheckPlan(chosen->plan, problem.shape, SiteOf(problem))) {
      FAIL_CHECK(violation.detail);
    }
    CHECK(*PredictStepSeconds(problem, chosen->plan) == chosen->step_seconds);
    CHECK(chosen->lower_bound_seconds <= chosen->step_seconds);
  } else {
    CHECK(absl::IsResourceExhausted(chosen.status()));
  }
  const BruteForce brute = LeastSeconds(problem, same_kind, most_plans);
  if (!brute.complete) return;
  ++compared;
  REQUIRE(chosen.ok() == brute.least_seconds.has_value());
  if (!chosen.ok()) return;
  CAPTURE(Describe(chosen->plan), brute.plans);
  CHECK(chosen->proven_optimal);
  CHECK(chosen->step_seconds == Approx(*brute.least_seconds).epsilon(1e-9));
}

TEST_CASE("the chosen plan is valid and as fast as the best of all plans of up to 4 devices", "[property]") {
  int compared = 0;
  for (uint64_t seed = 0; seed < 250; ++seed) {
    CAPTURE(seed);
    CompareWithBruteForce(RandomProblem(seed), SameKind::kAllOrders, 40'000, compared);
  }
  CHECK(compared > 150);
}

TEST_CASE("the chosen plan is as fast as the best of all plans of up to 8 devices of few kinds", "[property]") {
  const RandomProblemOptions options = {.min_devices = 5,
                                        .max_devices = 8,
                                        .kinds = 3,
                                        .max_layers = 2,
                                        .max_micro_batches = 4,
                                        .processors = RandomProcessors::kOwn};
  int compared = 0;
  for (uint64_t seed = 1000; seed < 1060; ++seed) {
    CAPTURE(seed);
    CompareWithBruteForce(RandomProblem(seed, options), SameKind::kInOrder, 60'000, compared);
  }
  CHECK(compared > 25);
}

}  // namespace
}  // namespace medley
