#include "runtime/ir/program/stash_trips.h"

#include <catch2/catch.hpp>

#include "runtime/ir/program/schedule.h"

namespace medley {
namespace {

// Those of a stage of a pipeline.
std::vector<StashTrip> TripsOf(Schedule schedule, int stages, UnitId stage, int micro_batches) {
  Plan plan{.schedule = schedule, .routes = {{.micro_batches = micro_batches, .micro_batch_sequences = 1}}};
  for (int s = 0; s < stages; ++s) {
    plan.units.push_back({.devices = {"a/" + std::to_string(s)}, .chunks = {{s, s + 1}}});
    plan.routes[0].units.push_back(s);
  }
  const Visits visits = VisitsOf(plan, stage);
  return StashTripsOf(OrderOfUnit(plan, stage, visits), visits, 1);
}

TEST_CASE("a stash is stored behind its forward and fetched before the gradient that is before its own") {
  // F0 F1 F2 F3 B0 B1 B2 B3. The first gradient's has none before its own.
  const std::vector<StashTrip> trips = TripsOf(Schedule::kGPipe, 1, 0, 4);
  REQUIRE(trips.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(trips[i].forward == 1 + i);
    CHECK(trips[i].fetched_before == 4 + i);
    CHECK(trips[i].gradient == 5 + i);
  }
}

TEST_CASE("stashes travel where more than three would be on the device, and only there") {
  struct Case {
    Schedule schedule;
    int stages, stage, micro_batches, trips;
  };
  const auto c = GENERATE(values<Case>({
      {Schedule::kGPipe, 1, 0, 3, 0},
      {Schedule::kGPipe, 3, 1, 8, 7},
      {Schedule::kOneForwardOneBackward, 1, 0, 8, 0},
      {Schedule::kOneForwardOneBackward, 6, 0, 8, 7},
      {Schedule::kOneForwardOneBackward, 6, 2, 8, 7},  // four are
      {Schedule::kOneForwardOneBackward, 6, 3, 8, 0},  // three are
      {Schedule::kOneForwardOneBackward, 6, 0, 3, 0},  // of more, that are not there
      {Schedule::kZeroBubbleH1, 4, 0, 6, 5},
      {Schedule::kZeroBubbleH1, 4, 3, 6, 0},  // four are, which wait for the gradients of their weights
  }));
  CAPTURE(static_cast<int>(c.schedule), c.stages, c.stage, c.micro_batches);
  CHECK(static_cast<int>(TripsOf(c.schedule, c.stages, c.stage, c.micro_batches).size()) == c.trips);
}

}  // namespace
}  // namespace medley
