#include "runtime/ir/plan/plan.h"

#include <catch2/catch.hpp>
#include <type_traits>

#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

template <typename A, typename B>
concept TakenFor =
    std::is_convertible_v<A, B> || std::is_constructible_v<B, A> || std::is_assignable_v<B&, A>;

static_assert(TakenFor<SegmentId, SegmentId> && TakenFor<int, SegmentId> && TakenFor<SegmentId, int>);
static_assert(!TakenFor<SegmentId, UnitId> && !TakenFor<UnitId, SegmentId>);
static_assert(!TakenFor<BlockId, SegmentId> && !TakenFor<SegmentId, BlockId>);
static_assert(!TakenFor<BlockId, LayerId> && !TakenFor<LayerId, BlockId>);
static_assert(!TakenFor<BlockId, UnitId> && !TakenFor<UnitId, BlockId>);
static_assert(!TakenFor<StageId, UnitId> && !TakenFor<UnitId, StageId>);
static_assert(!TakenFor<StageId, BlockId> && !TakenFor<BlockId, StageId>);
static_assert(!std::is_invocable_v<decltype(SegmentOfBlock), LayerId>);

// Route 0: units 0 and 2; route 1: unit 1 alone. Six blocks.
Plan TwoRoutes() {
  Plan plan;
  plan.units = {{{"a/0"}, {{0, 2}}}, {{"b/0"}, {{0, 6}}}, {{"c/0"}, {{2, 6}}}};
  plan.routes = {{{0, 2}, 6, 4}, {{1}, 2, 4}};
  return plan;
}

TEST_CASE("a unit's visits are where its routes pass it") {
  const Plan plan = TwoRoutes();
  REQUIRE(VisitsOf(plan, 2).size() == 1);
  const Visit last = VisitsOf(plan, 2)[0];
  CHECK(last.route == 0);
  CHECK(last.chunk == 0);
  CHECK(last.previous == 0);
  CHECK(last.next == -1);
  CHECK(last.stage == 1);
  CHECK(last.stages == 2);
  CHECK(last.first_micro_batch == 0);
  CHECK(last.micro_batches == 6);
  CHECK(VisitsOf(plan, 1)[0].route == 1);
  CHECK(VisitsOf(plan, 1)[0].first_micro_batch == 6);
  CHECK(VisitsOf(plan, 3).empty());
}

// Unit 0 has both ends of the model, unit 1 the middle for both routes, unit 2 both ends again: two devices
// each but for unit 1.
Plan Wide() {
  Plan plan;
  plan.units = {
      {{"a/0", "a/1"}, {{0, 2}, {4, 6}}}, {{"b/0", "b/1"}, {{2, 4}}}, {{"c/0", "c/1"}, {{0, 2}, {4, 6}}}};
  plan.routes = {{{0, 1, 0}, 3, 1}, {{2, 1, 2}, 2, 2}};
  return plan;
}

TEST_CASE("a unit with two ranges is passed twice, and one on two routes by both") {
  const Plan plan = Wide();
  const Visits ends = VisitsOf(plan, 0);
  REQUIRE(ends.size() == 2);
  CHECK(ends[0].chunk == 0);
  CHECK(ends[0].stage == 0);
  CHECK(ends[1].chunk == 1);
  CHECK(ends[1].stage == 2);
  CHECK(ends[1].previous == 1);
  const Visits middle = VisitsOf(plan, 1);
  REQUIRE(middle.size() == 2);
  CHECK(middle[0].next == 0);
  CHECK(middle[1].next == 2);
  CHECK(middle[1].first_micro_batch == 3);
  CHECK(middle[1].first_sequence == 3);
}

TEST_CASE("ranks are the units' devices, one after another") {
  const Plan plan = Wide();
  CHECK(RankCount(plan) == 6);
  CHECK(FirstRankOf(plan, 1) == 2);
  CHECK(PlaceOf(plan, 3).unit == 1);
  CHECK(PlaceOf(plan, 3).member == 1);
  CHECK(DeviceOf(plan, 4) == "c/0");
  CHECK(DevicesOf(plan) == std::vector<std::string>{"a/0", "a/1", "b/0", "b/1", "c/0", "c/1"});
  const ModelConfig model = {.layers = 4, .hidden = 8, .heads = 4, .feed_forward = 10, .vocabulary = 7};
  CHECK(ShareOf(plan, 1, model) == ModelShare{{2, 4}, {5, 10}, {4, 7}});
  Plan uneven = plan;
  uneven.units[1].shares = {{{0, 3}, {0, 8}, {0, 5}}, {{3, 4}, {8, 10}, {5, 7}}};
  CHECK(ShareOf(uneven, 3, model) == uneven.units[1].shares[1]);
}

TEST_CASE("a segment is held by whoever holds its block, the tied one by first and last stages") {
  const Plan plan = TwoRoutes();
  const ModelConfig config = {.layers = 4};
  CHECK(HoldersOf(plan, config, kTiedSegment) == std::vector<UnitId>{0, 1, 2});
  CHECK(HoldersOf(plan, config, SegmentOfBlock(0)) == std::vector<UnitId>{0, 1});
  CHECK(HoldersOf(plan, config, SegmentOfBlock(1)) == std::vector<UnitId>{0, 1});
  CHECK(HoldersOf(plan, config, SegmentOfBlock(2)) == std::vector<UnitId>{1, 2});
  CHECK(HoldersOf(plan, config, SegmentOfBlock(5)) == std::vector<UnitId>{1, 2});
}

TEST_CASE("a plan is described in one line") {
  CHECK(Describe(TwoRoutes()) ==
        "2 routes, micro-batch 4, 1f1b: [a/0 blocks 0-1 -> c/0 blocks 2-5] x 6 | [b/0 blocks 0-5] x 2");
  Plan mixed = TwoRoutes();
  mixed.routes[1].micro_batch_sequences = 1;
  CHECK(Describe(mixed) ==
        "2 routes, micro-batches 1, 4, 1f1b: [a/0 blocks 0-1 -> c/0 blocks 2-5] x 6 of 4 | [b/0 blocks 0-5] "
        "x 2 of 1");
  mixed.shards_optimizer = true;
  CHECK(
      Describe(mixed) ==
      "2 routes, micro-batches 1, 4, 1f1b, optimizer sharded evenly: [a/0 blocks 0-1 -> c/0 blocks 2-5] x 6 "
      "of 4 | [b/0 blocks 0-5] x 2 of 1");
  mixed.units[1].optimizer_weight = 3;
  CHECK(Describe(mixed) ==
        "2 routes, micro-batches 1, 4, 1f1b, optimizer sharded 1:1:3: [a/0 blocks 0-1 -> c/0 blocks 2-5] x 6 "
        "of 4 | [b/0 blocks 0-5] x 2 of 1");
  CHECK(VisitsOf(mixed, 1)[0].first_sequence == 24);
  CHECK(VisitsOf(mixed, 1)[0].micro_batch_sequences == 1);
  Plan rows = TwoRoutes();
  rows.units[1].devices.push_back("b/1");
  rows.units[1].sequence_parallel = true;
  rows.units[1].recompute = Recompute::kLayers;
  rows.units[1].activations_home = ActivationsHome::kHost;
  CHECK(Describe(rows) ==
        "2 routes, micro-batch 4, 1f1b: [a/0 blocks 0-1 -> c/0 blocks 2-5] x 6 | [b/0+b/1 sequence parallel "
        "blocks 0-5 recomputing layers activations on the host] x 2");
  rows.units[1].recomputed_layers = 3;
  CHECK_THAT(Describe(rows), Catch::Contains("blocks 0-5 recomputing 3 layers activations on the host] x 2"));
  rows.units[1].recompute = Recompute::kAllButAttention;
  CHECK_THAT(Describe(rows), Catch::Contains("blocks 0-5 recomputing all but attention of 3 layers activ"));
  rows.units[1].homed_layers = 2;
  CHECK_THAT(Describe(rows), Catch::Contains(" of 3 layers activations of 2 layers on the host] x 2"));
  rows.units[1].recomputed_layers = 0;
  rows.units[1].sequence_parallel = false;
  rows.units[1].recompute = Recompute::kNone;
  rows.units[1].KeepActivationsOnDevice();
  rows.units[1].exchange_parts = 2;
  CHECK(Describe(rows) ==
        "2 routes, micro-batch 4, 1f1b: [a/0 blocks 0-1 -> c/0 blocks 2-5] x 6 | [b/0+b/1 in 2 parts blocks "
        "0-5] x 2");
  CHECK(Describe(Wide()) ==
        "2 routes, micro-batches 1, 2, 1f1b: [a/0+a/1 blocks 0-1 -> b/0+b/1 blocks 2-3 -> a/0+a/1 blocks "
        "4-5] x 3 of 1 | "
        "[c/0+c/1 blocks 0-1 -> b/0+b/1 blocks 2-3 -> c/0+c/1 blocks 4-5] x 2 of 2");
}

}  // namespace
}  // namespace medley
