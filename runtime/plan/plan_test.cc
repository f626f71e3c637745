#include "runtime/plan/plan.h"

#include <catch2/catch.hpp>

#include "runtime/model/parameters.h"

namespace medley {
namespace {

// Route 0: units 0 and 2; route 1: unit 1 alone. Six blocks.
Plan TwoRoutes() {
  Plan plan;
  plan.units = {{"a/0", {0, 2}}, {"b/0", {0, 6}}, {"c/0", {2, 6}}};
  plan.routes = {{{0, 2}, 6, 4}, {{1}, 2, 4}};
  return plan;
}

TEST_CASE("a unit's position is where its route visits it") {
  const Plan plan = TwoRoutes();
  const Position last = PositionOf(plan, 2);
  CHECK(last.route == 0);
  CHECK(last.stage == 1);
  CHECK(last.stages == 2);
  CHECK(last.first_micro_batch == 0);
  CHECK(last.micro_batches == 6);
  CHECK(PositionOf(plan, 1).route == 1);
  CHECK(PositionOf(plan, 1).first_micro_batch == 6);
  CHECK(PositionOf(plan, 3).route == -1);
}

TEST_CASE("a segment is held by whoever holds its block, the tied one by first and last stages") {
  const Plan plan = TwoRoutes();
  const ModelConfig config = {.layers = 4};
  CHECK(HoldersOf(plan, config, kTiedSegment) == std::vector<int>{0, 1, 2});
  CHECK(HoldersOf(plan, config, SegmentOfBlock(0)) == std::vector<int>{0, 1});
  CHECK(HoldersOf(plan, config, SegmentOfBlock(1)) == std::vector<int>{0, 1});
  CHECK(HoldersOf(plan, config, SegmentOfBlock(2)) == std::vector<int>{1, 2});
  CHECK(HoldersOf(plan, config, SegmentOfBlock(5)) == std::vector<int>{1, 2});
}

TEST_CASE("a plan is described in one line") {
  CHECK(Describe(TwoRoutes()) ==
        "2 routes, micro-batch 4, 1f1b: [a/0 blocks 0-1 -> c/0 blocks 2-5] x 6 | [b/0 blocks 0-5] x 2");
  Plan mixed = TwoRoutes();
  mixed.routes[1].micro_batch_sequences = 1;
  CHECK(Describe(mixed) ==
        "2 routes, micro-batches 1, 4, 1f1b: [a/0 blocks 0-1 -> c/0 blocks 2-5] x 6 of 4 | [b/0 blocks 0-5] x 2 of 1");
  CHECK(PositionOf(mixed, 1).first_sequence == 24);
  CHECK(PositionOf(mixed, 1).micro_batch_sequences == 1);
}

}  // namespace
}  // namespace medley
