// Plans by classes where memory is short: units in sequence parallelism, and units that store what forwards keep.
#include <algorithm>
#include <catch2/catch.hpp>

#include "absl/strings/str_join.h"
#include "coordinator/planner/classes/class_planner.h"
#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/plan/check_plan.h"

namespace medley {
namespace {

// Devices with memory for few layers; 0 bytes a second: copies have not been measured.
PlanningProblem Short(uint64_t seed, double copied_bytes_per_second) {
  PlanningProblem problem = ManyDevices(seed, 12 + static_cast<int>(seed % 2) * 6);
  problem.constraints.saves_memory = true;
  problem.shape.model.layers = 18 + static_cast<int>(seed % 5) * 3;
  problem.shape.global_batch_sequences = 32;
  for (DeviceCost& device : problem.devices) {
    device.room.memory = KiB(3200 + 400 * static_cast<int>(seed % 4));
    for (ShareCost& share : device.shares) share.room.memory = device.room.memory;
    device.fetch_bytes_per_second = copied_bytes_per_second;
    device.store_bytes_per_second = 1.2 * copied_bytes_per_second;
    device.host_memory = MiB(64);
  }
  return problem;
}

// That it is valid, fits, and is predicted as the whole simulation has it, which is what this gives.
double CheckPlanned(const PlanningProblem& problem, const Plan& plan, double step_seconds) {
  CHECK(SequencesOf(plan) == problem.shape.global_batch_sequences);
  CHECK(FitsMemory(problem, plan));
  for (const PlanViolation& violation : CheckPlan(plan, problem.shape, SiteOf(problem)))
    FAIL_CHECK(violation.detail);
  const absl::StatusOr<double> whole = PredictStepSeconds(problem, plan);
  REQUIRE(whole.status().ToString() == "OK");
  CHECK(step_seconds == Approx(*whole).epsilon(0.02));
  return *whole;
}

bool Stores(const Unit& unit) { return unit.activations_home == ActivationsHome::kHost; }
bool ByRows(const Unit& unit) { return unit.sequence_parallel; }

TEST_CASE("where memory is short forwards store what others make again, if copies are fast") {
  int stored = 0, by_rows = 0, faster = 0, compared = 0;
  double ratios = 0;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    const double bytes_per_second = seed % 3 == 0 ? 2e5 : 5e6;
    const PlanningProblem problem = Short(seed, bytes_per_second);
    INFO("seed " << seed << ", " << problem.devices.size() << " devices");
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (absl::IsResourceExhausted(found.status())) continue;
    REQUIRE(found.status().ToString() == "OK");
    INFO(found->summary);
    const Plan& plan = found->plan;
    CHECK(found->lower_bound_seconds <= CheckPlanned(problem, found->plan, found->step_seconds));
    by_rows += std::any_of(plan.units.begin(), plan.units.end(), ByRows) ? 1 : 0;
    if (std::none_of(plan.units.begin(), plan.units.end(), Stores)) continue;
    ++stored;
    if (stored <= 2) CHECK(PlanByClasses(problem)->plan == plan);
    const std::string told = absl::StrJoin(DescribeSaving(problem, plan, *PredictStep(problem, plan)), "; ");
    CHECK_THAT(told, Catch::Contains("what forwards keep goes to host memory and comes back on k") &&
                         Catch::Contains(" of 64.0 MiB there; copies one way take "));
    // Searches that may do more find other plans, now and then slower ones.
    const absl::StatusOr<PlanByClass> without = PlanByClasses(Short(seed, 0));
    if (!without.ok()) {
      ++faster;
      continue;
    }
    CHECK(std::none_of(without->plan.units.begin(), without->plan.units.end(), Stores));
    CHECK(found->step_seconds <= 1.05 * without->step_seconds);
    ratios += found->step_seconds / without->step_seconds;
    ++compared;
    faster += found->step_seconds < 0.99 * without->step_seconds ? 1 : 0;
  }
  CHECK(stored >= 4);
  CHECK(by_rows >= 2);
  CHECK(faster >= 3);
  CHECK(ratios <= compared);
}

TEST_CASE("the plan that is taken stores of as few layers as fit, and is predicted as it is") {
  int fewer = 0;
  for (const uint64_t seed : {1, 5, 7}) {  // of 18 devices: planned by classes alone
    const PlanningProblem problem = Short(seed, 5e6);
    INFO("seed " << seed);
    const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
    REQUIRE(chosen.status().ToString() == "OK");
    CheckPlanned(problem, chosen->plan, chosen->step_seconds);
    for (size_t u = 0; u < chosen->plan.units.size(); ++u) {
      const Unit& unit = chosen->plan.units[u];
      const int layers = LayersOf(unit, problem.shape.model);
      if (!Stores(unit) || layers == 0) continue;
      CHECK(unit.homed_layers < layers);
      fewer += unit.homed_layers > 0 ? 1 : 0;
      Plan less = chosen->plan;
      const int homed = unit.homed_layers == 0 ? layers : unit.homed_layers;
      less.units[u].homed_layers = homed - 1;
      if (homed == 1) less.units[u].KeepActivationsOnDevice();
      CHECK_FALSE(FitsMemory(problem, less));
    }
  }
  CHECK(fewer >= 2);
}

TEST_CASE("routes whose units store what forwards keep get orders of their own") {
  int ordered = 0;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    PlanningProblem problem = Short(seed, 5e6);
    problem.constraints.synthesised_orders = true;
    // Half of them have hosts with little room.
    if (seed % 2 == 0) {
      for (DeviceCost& device : problem.devices) device.host_memory = MiB(6);
    }
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (!found.ok() || found->plan.schedule != Schedule::kListed) continue;
    const Plan& plan = found->plan;
    if (std::none_of(plan.units.begin(), plan.units.end(), Stores)) continue;
    INFO("seed " << seed << ": " << found->summary);
    ++ordered;
    CHECK(found->step_seconds < found->named_step_seconds);
    CheckPlanned(problem, found->plan, found->step_seconds);
  }
  CHECK(ordered >= 3);
}

TEST_CASE("nothing is stored or cut by rows where nothing may be saved") {
  int plans = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    PlanningProblem problem = Short(seed, 5e6);
    problem.constraints.saves_memory = false;
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (!found.ok()) continue;
    ++plans;
    for (const Unit& unit : found->plan.units) {
      CHECK_FALSE(Stores(unit));
      CHECK_FALSE(ByRows(unit));
      CHECK(unit.recompute == Recompute::kNone);
    }
  }
  CHECK(plans > 0);
}

TEST_CASE("nothing is stored that hosts have no room for") {
  PlanningProblem problem = Short(2, 5e6);
  for (DeviceCost& device : problem.devices) device.host_memory = KiB(64);
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  if (found.ok()) CHECK(std::none_of(found->plan.units.begin(), found->plan.units.end(), Stores));
}

}  // namespace
}  // namespace medley
