#include "coordinator/problem/plan_report.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("a report carries the plan, its prediction and its explanation") {
  ChosenPlan chosen;
  chosen.plan.units = {{{"a/cpu0"}, {{0, 8}}}};
  chosen.plan.routes = {{{0}, 4, 2}};
  chosen.step_seconds = 0.5;
  chosen.lower_bound_seconds = 0.4;
  chosen.proven_optimal = true;
  chosen.simulated_plans = 17;
  Explanation explanation;
  explanation.bottleneck = "a/cpu0";
  explanation.bubble_share = 0.1;
  Explanation::Device device;
  device.name = "a/cpu0";
  device.used = true;
  device.peak_memory = MiB(3);
  explanation.devices.push_back(device);
  explanation.rejected.push_back({PlanKind::kPurePipeline, "x", 0.7, "slower"});
  const TrainingShape shape{{6, 256, 8, 1024, 256, 256}, 256, 8};

  const v1::PlanReport report = EncodePlanReport(chosen, explanation, shape, PlanOrigin::kPlanner, "text");
  CHECK(report.plan().units(0).devices(0) == "a/cpu0");
  CHECK(report.description() == Describe(chosen.plan));
  CHECK(report.predicted_tokens_per_second() == Approx(4096));
  CHECK(report.lower_bound_seconds() == 0.4);
  CHECK(report.proven_optimal());
  CHECK(report.simulated_plans() == 17);
  CHECK(report.devices(0).peak_memory_bytes() == 3u << 20);
  CHECK(report.rejected(0).kind() == "pure pipeline");
  CHECK(report.explanation() == "text");

  const v1::PlanReport pinned = EncodePlanReport(chosen, explanation, shape, PlanOrigin::kPinned, "");
  CHECK(pinned.pinned());
  CHECK_FALSE(pinned.proven_optimal());
  CHECK(pinned.lower_bound_seconds() == 0);
  CHECK(pinned.predicted_step_seconds() == 0.5);
}

}  // namespace
}  // namespace medley
