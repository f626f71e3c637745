// Plans by classes of devices whose passes are in other orders than 1F1B's.
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <utility>

#include "coordinator/planner/classes/class_planner.h"
#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/classes/route_orders.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/planner/techniques/orders.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/plan/check_plan.h"

namespace medley {
namespace {

TEST_CASE(
    "passes in other orders than 1F1B's make plans faster, which are valid, fit, and are predicted as whole "
    "ones are") {
  int ordered = 0;
  for (uint64_t seed = 1; seed <= 21; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 12 + static_cast<int>(seed % 3) * 6);
    problem.constraints.synthesised_orders = true;
    INFO("seed " << seed << ", " << problem.devices.size() << " devices");
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (absl::IsResourceExhausted(found.status())) continue;
    REQUIRE(found.status().ToString() == "OK");
    INFO(found->summary);
    INFO(found->orders);
    CHECK_FALSE(found->orders.empty());
    const bool is_named = found->plan.schedule == Schedule::kOneForwardOneBackward;
    if (seed % 5 == 0) {
      problem.constraints.synthesised_orders = false;
      const absl::StatusOr<PlanByClass> named = PlanByClasses(problem);
      REQUIRE(named.ok());
      CHECK(found->named_step_seconds == named->step_seconds);
      if (is_named) CHECK(found->plan == named->plan);
    }
    if (is_named) {
      CHECK(found->step_seconds == found->named_step_seconds);
      continue;
    }
    ++ordered;
    CHECK(found->step_seconds < found->named_step_seconds);
    CHECK(found->busy_seconds > 0);
    CHECK(found->busy_seconds <= found->step_seconds);
    CHECK(SequencesOf(found->plan) == problem.shape.global_batch_sequences);
    CHECK(FitsMemory(problem, found->plan));
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.01));
    if (ordered > 2) continue;
    problem.constraints.synthesised_orders = true;
    CHECK(PlanByClasses(problem)->plan == found->plan);
  }
  CHECK(ordered >= 5);
}

TEST_CASE("routes with several ranges a unit fit, and are predicted as whole ones are") {
  int cut = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 12 + static_cast<int>(seed % 3) * 6);
    INFO("seed " << seed << ", " << problem.devices.size() << " devices");
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    if (!found.ok() || !PassesEachUnitOnce(found->plan)) continue;
    AlikeRoutePredictor predictor(problem);
    RouteOrders orders(predictor);
    const std::optional<OrderedPlan> ordered = orders.OrderInRanges(found->plan);
    if (!ordered) continue;
    ++cut;
    INFO(Describe(ordered->plan));
    CHECK(MostRanges(ordered->plan) > 1);
    for (const PlanViolation& violation : CheckPlan(ordered->plan, problem.shape, SiteOf(problem)))
      FAIL_CHECK(violation.detail);
    const absl::StatusOr<double> by_kinds = predictor.Predict(ordered->plan);
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, ordered->plan);
    REQUIRE(by_kinds.status().ToString() == "OK");
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(*by_kinds == Approx(*whole).epsilon(0.005));
  }
  CHECK(cut > 3);
}

TEST_CASE("units that several routes share are chosen where they are faster") {
  const bool saves_memory = GENERATE(false, true);
  int chosen = 0;
  for (const auto& [seed, devices] :
       {std::pair(29, 5), std::pair(3, 8), std::pair(3, 18), std::pair(3, 24), std::pair(30, 24)}) {
    PlanningProblem problem = ManyDevices(seed, devices);
    problem.constraints.synthesised_orders = true;
    problem.constraints.saves_memory = saves_memory;
    INFO("seed " << seed << ", " << devices << " devices, saves memory: " << saves_memory);
    const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
    REQUIRE(found.status().ToString() == "OK");
    INFO(found->summary);
    if (PassesEachUnitOnce(found->plan)) continue;
    ++chosen;
    CHECK(found->step_seconds < 0.99 * found->named_step_seconds);
    CHECK(found->busy_seconds <= found->step_seconds);
    CHECK(SequencesOf(found->plan) == problem.shape.global_batch_sequences);
    CHECK(FitsMemory(problem, found->plan));
    CHECK(CheckPlan(found->plan, problem.shape, SiteOf(problem)).empty());
    const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
    REQUIRE(whole.status().ToString() == "OK");
    CHECK(found->step_seconds == Approx(*whole).epsilon(0.005));
    // Units of a stage take micro-batches in turn.
    std::map<int, std::set<int>> of_blocks;
    for (int u = 0; u < static_cast<int>(found->plan.units.size()); ++u) {
      int micro_batches = 0;
      for (const Visit& visit : VisitsOf(found->plan, u)) micro_batches += visit.micro_batches;
      of_blocks[found->plan.units[u].chunks[0].first.value()].insert(micro_batches);
    }
    for (const auto& [block, counts] : of_blocks) CHECK(*counts.rbegin() - *counts.begin() <= 1);
    CHECK(PlanByClasses(problem)->plan == found->plan);
  }
  CHECK(chosen >= 3);
}

TEST_CASE("stages that would wait for gradients make those of weights meanwhile") {
  // 40 micro-batches on their way through 20 stages of a second forward, one for the gradient of the input and one for the weights'.
  PlanningProblem problem = Alike(20, 20, 40);
  problem.constraints.max_routes = 1;
  problem.constraints.synthesised_orders = true;
  const absl::StatusOr<PlanByClass> found = PlanByClasses(problem);
  REQUIRE(found.status().ToString() == "OK");
  INFO(found->orders);
  CHECK(found->named_step_seconds == Approx((40 + 19) * 3));
  // No stage can do without its own work and the forwards that lead to it.
  CHECK(found->step_seconds >= 40 * 3 + 19);
  CHECK(found->step_seconds < 40 * 3 + 19 * 2);
  CHECK(found->busy_seconds == Approx(40 * 3));
  const absl::StatusOr<double> whole = PredictStepSeconds(problem, found->plan);
  REQUIRE(whole.ok());
  CHECK(*whole == Approx(found->step_seconds));
}

}  // namespace
}  // namespace medley
