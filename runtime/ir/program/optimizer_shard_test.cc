#include "runtime/ir/program/optimizer_shard.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "runtime/ir/model/model_share.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {
namespace {

std::vector<PlannedShape> Plans(bool sharded) {
  std::vector<PlannedShape> plans;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    plans.push_back(RandomPlan(seed));
    plans.push_back(RandomWidePlan(seed));
  }
  if (!sharded) return plans;
  for (uint64_t seed = 0; seed < plans.size(); ++seed)
    ShardOptimizer(plans[seed].plan, plans[seed].shape.model, seed);
  return plans;
}

ParameterLayout LayoutOf(const PlannedShape& planned, Rank rank) {
  const ModelConfig local = LocalModel(planned.shape.model, ShareOf(planned.plan, rank, planned.shape.model));
  return LayoutOf(local, planned.plan.units[PlaceOf(planned.plan, rank).unit].chunks);
}

// Of one element of the whole model.
struct Counts {
  int owned = 0, counted = 0;
  std::set<UnitId> holders;
  bool cut = false;
};

// By segment and element of its whole tensors.
std::vector<std::vector<Counts>> CountAll(const PlannedShape& planned) {
  const ModelConfig& model = planned.shape.model;
  std::vector<std::vector<Counts>> counts;
  for (SegmentId segment = 0; segment < SegmentCount(model); ++segment)
    counts.emplace_back(SegmentElements(model, segment));
  for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
    const ParameterLayout layout = LayoutOf(planned, rank);
    const OptimizerShard shard = OptimizerShardOf(planned.plan, rank, model);
    std::vector<bool> owned(layout.elements, false), counted(layout.elements, false);
    for (const OwnedRun& run : shard.owned) std::fill_n(owned.begin() + run.offset, run.elements, true);
    for (const NormRun& run : shard.norms) std::fill_n(counted.begin() + run.offset, run.elements, true);
    for (size_t s = 0; s < layout.segments.size(); ++s) {
      int64_t held = layout.segment_offsets[s], whole = 0;
      for (const ParameterSpec& tensor : SegmentParameters(model, layout.segments[s])) {
        for (const HeldRun& run : HeldRuns(model, tensor, ShareOf(planned.plan, rank, model))) {
          for (int64_t i = 0; i < run.count; ++i, ++held) {
            Counts& of = counts[layout.segments[s]][whole + run.whole + i];
            of.owned += owned[held];
            of.counted += counted[held];
            of.holders.insert(PlaceOf(planned.plan, rank).unit);
            of.cut = tensor.cut != TensorCut::kNone;
          }
        }
        whole += tensor.elements;
      }
    }
  }
  return counts;
}

TEST_CASE("every element counts once in the norm, and who counts it has the sum of its gradients",
          "[property]") {
  const bool sharded = GENERATE(false, true);
  for (const PlannedShape& planned : Plans(sharded)) {
    CAPTURE(Describe(planned.plan));
    for (const std::vector<Counts>& segment : CountAll(planned)) {
      CHECK(std::all_of(segment.begin(), segment.end(), [](const Counts& of) { return of.counted == 1; }));
    }
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      const ParameterLayout layout = LayoutOf(planned, rank);
      const OptimizerShard shard = OptimizerShardOf(planned.plan, rank, planned.shape.model);
      int64_t end = 0;
      for (const NormRun& run : shard.norms) {
        CHECK(run.offset >= end);
        end = run.offset + run.elements;
        int64_t owned = 0;
        for (const OwnedRun& piece : OwnedWithin(shard.owned, run.offset, end)) owned += piece.elements;
        CHECK(owned == run.elements);
        const auto segment = std::find(layout.segments.begin(), layout.segments.end(), run.segment);
        REQUIRE(segment != layout.segments.end());
        const size_t s = segment - layout.segments.begin();
        CHECK(run.offset >= layout.segment_offsets[s]);
        CHECK(end <= (s + 1 < layout.segments.size() ? layout.segment_offsets[s + 1] : layout.elements));
      }
    }
  }
}

TEST_CASE("of what units hold together, each element that is cut is owned once; copies in a unit stay alike",
          "[property]") {
  int64_t shared = 0;
  for (const PlannedShape& planned : Plans(true)) {
    CAPTURE(Describe(planned.plan));
    for (const std::vector<Counts>& segment : CountAll(planned)) {
      for (const Counts& of : segment) {
        const auto degree = [&](UnitId unit) {
          return static_cast<int>(planned.plan.units[unit].devices.size());
        };
        int least = degree(*of.holders.begin());
        for (const UnitId unit : of.holders) least = std::min(least, degree(unit));
        if (of.cut) {
          REQUIRE(of.owned == 1);
        } else if (of.holders.size() == 1) {
          REQUIRE(of.owned == least);
        } else {
          // Once for each of the ranks of units that are cut alike, once for all where they are not.
          REQUIRE((of.owned == least || of.owned == 1));
        }
        shared += of.holders.size() > 1;
      }
    }
  }
  CHECK(shared > 100'000);
}

TEST_CASE("the runs of a rank are apart, ascend, and lie one after another in m and v", "[property]") {
  const bool sharded = GENERATE(false, true);
  for (const PlannedShape& planned : Plans(sharded)) {
    CAPTURE(Describe(planned.plan));
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      const int64_t held = LayoutOf(planned, rank).elements;
      const OptimizerShard shard = OptimizerShardOf(planned.plan, rank, planned.shape.model);
      int64_t end = -1, place = 0;
      for (const OwnedRun& run : shard.owned) {
        CHECK(run.elements > 0);
        CHECK(run.offset > end);
        CHECK(run.place == place);
        end = run.offset + run.elements;
        place += run.elements;
      }
      CHECK(end <= held);
      CHECK(shard.elements() == place);
      if (!sharded) CHECK(shard.owned == std::vector<OwnedRun>{{.elements = held}});
      CHECK(MemoryOfRank(planned.plan, rank, planned.shape).optimizer == Bytes{8 * place});
    }
  }
}

TEST_CASE("replicas have the optimizer's state once, in proportion to their weights") {
  const ModelConfig model = {
      .layers = 4, .hidden = 16, .heads = 2, .feed_forward = 64, .vocabulary = 50, .context = 16};
  Plan plan;
  plan.shards_optimizer = true;
  const std::vector<int> weights = {3, 0, 1, 4};
  for (int u = 0; u < 4; ++u) {
    plan.units.push_back({.devices = {"test/" + std::to_string(u)},
                          .chunks = {{0, model.blocks()}},
                          .optimizer_weight = weights[u]});
    plan.routes.push_back({.units = {u}, .micro_batches = 1, .micro_batch_sequences = 1});
  }
  const int64_t slices = static_cast<int64_t>(SlicesOf(plan, 0, model).size());
  CHECK(slices > 1);
  int64_t together = 0;
  for (Rank rank = 0; rank < 4; ++rank) {
    const int64_t elements = OptimizerShardOf(plan, rank, model).elements();
    CHECK(std::abs(elements - ModelElements(model) * weights[rank] / 8) <= slices);
    together += elements;
  }
  CHECK(together == ModelElements(model));
}

// As OwnedOfSegment has it, by way of all that the rank owns.
std::vector<OwnedRun> OwnedOf(const PlannedShape& planned, Rank rank, SegmentId segment) {
  const ParameterLayout layout = LayoutOf(planned, rank);
  const size_t s =
      std::find(layout.segments.begin(), layout.segments.end(), segment) - layout.segments.begin();
  const int64_t first = layout.segment_offsets[s];
  const int64_t end = s + 1 < layout.segments.size() ? layout.segment_offsets[s + 1] : layout.elements;
  std::vector<OwnedRun> runs =
      OwnedWithin(OptimizerShardOf(planned.plan, rank, planned.shape.model).owned, first, end);
  int64_t place = 0;
  for (OwnedRun& run : runs) {
    run = {run.offset - first, run.elements, place};
    place += run.elements;
  }
  return runs;
}

TEST_CASE("a segment's part of what a rank owns is told by itself, and by the slices of who holds alike",
          "[property]") {
  int others = 0;  // ranks whose slices stand in for their own
  for (const PlannedShape& planned : Plans(true)) {
    CAPTURE(Describe(planned.plan));
    const Plan& plan = planned.plan;
    for (Rank rank = 0; rank < RankCount(plan); ++rank) {
      const RankPlace place = PlaceOf(plan, rank);
      Rank alike = 0;
      const auto holds_alike = [&](const RankPlace& other) {
        return other.member == place.member && HoldAlike(plan.units[other.unit], plan.units[place.unit]);
      };
      while (!holds_alike(PlaceOf(plan, alike))) ++alike;
      others += alike == rank ? 0 : 1;
      const ParameterLayout layout = LayoutOf(planned, alike);
      const std::vector<GradientSlice> slices = SlicesOf(plan, alike, planned.shape.model);
      for (const SegmentId segment : layout.segments)
        CHECK(OwnedOfSegment(layout, slices, rank, segment) == OwnedOf(planned, rank, segment));
    }
  }
  CHECK(others > 0);
}

TEST_CASE("thousands of ranks have the state of a segment once") {
  const ModelConfig model = {
      .layers = 2, .hidden = 16, .heads = 2, .feed_forward = 64, .vocabulary = 50, .context = 16};
  constexpr int kRanks = 3000;
  Plan plan;
  plan.shards_optimizer = true;
  for (int u = 0; u < kRanks; ++u) {
    plan.units.push_back({.devices = {"test/" + std::to_string(u)}, .chunks = {{0, model.blocks()}}});
    plan.routes.push_back({.units = {u}, .micro_batches = 1, .micro_batch_sequences = 1});
  }
  const ParameterLayout layout = LayoutOf(model, plan.units[0].chunks);
  const std::vector<GradientSlice> slices = SlicesOf(plan, 0, model);
  for (const SegmentId segment : layout.segments) {
    std::map<int64_t, int64_t> runs;  // elements by where they begin
    for (Rank rank = 0; rank < kRanks; ++rank) {
      for (const OwnedRun& run : OwnedOfSegment(layout, slices, rank, segment))
        CHECK(runs.emplace(run.offset, run.elements).second);
    }
    int64_t end = 0;
    for (const auto& [offset, elements] : runs) {
      CHECK(offset == end);
      end += elements;
    }
    CHECK(end == SegmentElements(model, segment));
  }
  // Each of the few segments has a writer of its own.
  const std::vector<Rank> writers = SegmentWriters(plan, model);
  CHECK(std::set<Rank>(writers.begin(), writers.end()).size() == writers.size());
}

TEST_CASE("what is owned of a range of the arena, and of a tensor") {
  const std::vector<OwnedRun> owned = {{.offset = 2, .elements = 3, .place = 0},
                                       {.offset = 8, .elements = 4, .place = 3}};
  CHECK(OwnedWithin(owned, 0, 2).empty());
  CHECK(OwnedWithin(owned, 5, 8).empty());
  CHECK(OwnedWithin(owned, 12, 20).empty());
  CHECK(OwnedWithin(owned, 0, 20) == owned);
  CHECK(OwnedWithin(owned, 3, 10) == std::vector<OwnedRun>{{.offset = 3, .elements = 2, .place = 1},
                                                           {.offset = 8, .elements = 2, .place = 3}});
  CHECK(OwnedWithin(owned, 9, 10) == std::vector<OwnedRun>{{.offset = 9, .elements = 1, .place = 4}});
  // A tensor from element 4 of the arena on, of which elements 10 to 11 and 20 to 24 are held.
  const std::vector<HeldRun> held = {{.whole = 10, .held = 0, .count = 2},
                                     {.whole = 20, .held = 2, .count = 5}};
  std::vector<std::vector<int64_t>> visited;
  ForEachOwned(held, 4, owned, [&](int64_t whole, int64_t place, int64_t count) {
    visited.push_back({whole, place, count});
  });
  CHECK(visited == std::vector<std::vector<int64_t>>{{10, 2, 1}, {22, 3, 3}});
}

}  // namespace
}  // namespace medley
