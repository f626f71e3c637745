#include "coordinator/planner/step_portrait.h"

#include <catch2/catch.hpp>

#include "coordinator/predictor/uniform_problem.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// Two devices that compute for 2 and for 1 of 10 seconds.
StepPortrait Portrait() {
  StepPortrait portrait;
  portrait.prediction.step_seconds = 10;
  portrait.prediction.ranks = {{.device = "a/0", .busy_seconds = 2}, {.device = "b/0", .busy_seconds = 1}};
  portrait.busiest = 0;
  portrait.busiest_share = 0.2;
  portrait.idlest = 1;
  portrait.idlest_share = 0.1;
  return portrait;
}

PlanningProblem OfDevices(size_t count) {
  PlanningProblem problem;
  problem.devices.resize(count);
  return problem;
}

TEST_CASE("a step is owed to what takes longest beside computing, or else to the busiest device") {
  StepPortrait portrait = Portrait();
  CHECK(BottleneckOf(portrait) == "device: a/0 computes for 2.00 s of the step's 10.00 s (20 %)");
  portrait.reduction_seconds = 2;  // no longer than that
  CHECK(BottleneckOf(portrait) == "device: a/0 computes for 2.00 s of the step's 10.00 s (20 %)");
  portrait.reduction_seconds = 3;
  CHECK(BottleneckOf(portrait) ==
        "reductions: summing gradients takes 3.00 s of the step's 10.00 s; the busiest device computes for "
        "2.00 s");
  portrait.slowest_sender = 1;
  portrait.message_seconds = 4;
  CHECK(BottleneckOf(portrait) ==
        "link: messages that b/0 sends one way take 4.00 s of the step's 10.00 s; the busiest device "
        "computes for "
        "2.00 s");
  portrait.longest_exchange = {.unit = 0, .devices = "a/0+a/1", .seconds = 5};
  CHECK(
      BottleneckOf(portrait) ==
      "exchanges: what a/0+a/1 sum and give each other within passes takes 5.00 s of the step's 10.00 s; the "
      "busiest device computes for 2.00 s");
  portrait.longest_copier = 1;
  portrait.copy_seconds = 6;
  CHECK(BottleneckOf(portrait) ==
        "host memory: what b/0 copies one way between it and its own takes 6.00 s of the step's 10.00 s; the "
        "busiest "
        "device computes for 2.00 s");
}

TEST_CASE("what a device copies from host memory for longer than it computes is what its step is owed to") {
  PlanningProblem problem = Uniform(1, 6, 4);
  Plan plan = Replicas(8, {4});
  plan.schedule = Schedule::kGPipe;
  plan.units[0].window_layers = 2;
  problem.devices[0].fetch_bytes_per_second = problem.devices[0].store_bytes_per_second = 1e15;
  absl::StatusOr<StepPortrait> portrait = PortraitOf(problem, plan);
  REQUIRE(portrait.status().ToString() == "OK");
  CHECK_THAT(BottleneckOf(*portrait), Catch::StartsWith("device: d0 computes for"));
  const double layer = static_cast<double>(SegmentElements(problem.shape.model, SegmentOfBlock(1)));
  problem.devices[0].fetch_bytes_per_second = problem.devices[0].store_bytes_per_second = layer / 100;
  portrait = PortraitOf(problem, plan);
  REQUIRE(portrait.status().ToString() == "OK");
  CHECK(portrait->copy_seconds > 6 * 4 * 100);  // each layer's parameters once, at least
  CHECK(portrait->copy_seconds <= portrait->prediction.step_seconds);
  CHECK_THAT(BottleneckOf(*portrait), Catch::StartsWith("host memory: what d0 copies one way"));
}

TEST_CASE("a plan is slower for what its step is owed to, or for what its devices leave undone") {
  StepPortrait portrait = Portrait();
  CHECK(WhySlower(OfDevices(2), portrait, 9) == "a/0 would be busy 20 % of 10.00 s while b/0 idles 90 %");
  CHECK(WhySlower(OfDevices(4), portrait, 9) ==
        "a/0 would be busy 20 % of 10.00 s while b/0 idles 90 %; 2 devices would not be used");
  CHECK(WhySlower(OfDevices(2), portrait, 11) ==
        "it is not slower: a/0 would be busy 20 % of 10.00 s while b/0 idles 90 %");
  portrait.longest_exchange = {.unit = 0, .devices = "a/0+b/0", .seconds = 5};
  CHECK(WhySlower(OfDevices(2), portrait, 9) == BottleneckOf(portrait));
  portrait.longest_copier = 0;
  portrait.copy_seconds = 6;
  CHECK(WhySlower(OfDevices(2), portrait, 9) == BottleneckOf(portrait));
}

}  // namespace
}  // namespace medley
