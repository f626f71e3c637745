#include "runtime/ir/program/gradient_slices.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "runtime/ir/model/model_share.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {
namespace {

const ModelConfig kLlama = {.layers = 3,
                            .hidden = 8,
                            .heads = 8,
                            .feed_forward = 13,
                            .vocabulary = 11,
                            .context = 8,
                            .family = ModelFamily::kLlama,
                            .tied_head = false,
                            .key_value_heads = 4,
                            .head_size = 2};

ModelConfig Tied(ModelConfig config) {
  config.tied_head = true;
  return config;
}

// A unit of three unlike devices holds the whole model, and so do two units of one and of two devices together.
Plan UnlikeUnits(const ModelConfig& model) {
  const int blocks = model.blocks();
  return {
      .units = {{.devices = {"test/0", "test/1", "test/2"},
                 .chunks = {{0, blocks}},
                 .shares = {{{0, 2}, {0, 1}, {0, 5}}, {{2, 3}, {1, 9}, {5, 6}}, {{3, 4}, {9, 13}, {6, 11}}}},
                {.devices = {"test/3"}, .chunks = {{0, 2}}},
                {.devices = {"test/4", "test/5"},
                 .chunks = {{2, blocks}},
                 .shares = {{{0, 3}, {0, 10}, {0, 4}}, {{3, 4}, {10, 13}, {4, 11}}}}},
      .routes = {{.units = {0}, .micro_batches = 1, .micro_batch_sequences = 1},
                 {.units = {1, 2}, .micro_batches = 1, .micro_batch_sequences = 1}}};
}

std::vector<PlannedShape> Plans() {
  std::vector<PlannedShape> plans;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    plans.push_back(RandomPlan(seed));
    plans.push_back(RandomWidePlan(seed));
  }
  for (const ModelConfig& model : {kLlama, Tied(kLlama)})
    plans.push_back({.shape = {.model = model}, .plan = UnlikeUnits(model)});
  return plans;
}

TEST_CASE("every segment is saved by one rank of a unit that holds it", "[property]") {
  for (const PlannedShape& planned : Plans()) {
    CAPTURE(Describe(planned.plan));
    const ModelConfig& model = planned.shape.model;
    const std::vector<Rank> writers = SegmentWriters(planned.plan, model);
    REQUIRE(writers.size() == static_cast<size_t>(SegmentCount(model)));
    std::vector<int> saved(SegmentCount(model), 0);
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      SegmentId before = -1;
      for (const SegmentId segment : SavedSegments(planned.plan, rank, model)) {
        CHECK(segment > before);
        before = segment;
        ++saved[segment];
        CHECK(writers[segment] == rank);
        const std::vector<UnitId> holders = HoldersOf(planned.plan, model, segment);
        CHECK(std::find(holders.begin(), holders.end(), PlaceOf(planned.plan, rank).unit) != holders.end());
      }
    }
    CHECK(saved == std::vector<int>(SegmentCount(model), 1));
  }
}

TEST_CASE(
    "ranks that hold the same segments write about equal shares of a checkpoint, of one unit or of several") {
  const ModelConfig model = {
      .layers = 12, .hidden = 16, .heads = 2, .feed_forward = 64, .vocabulary = 50, .context = 16};
  const int degree = GENERATE(1, 2, 4);
  CAPTURE(degree);
  Plan plan;
  for (int u = 0; u < 4 / degree; ++u) {
    Unit& unit = plan.units.emplace_back();
    for (int d = 0; d < degree; ++d) unit.devices.push_back("test/" + std::to_string(degree * u + d));
    unit.chunks = {{0, model.blocks()}};
    plan.routes.push_back({.units = {u}, .micro_batches = 1, .micro_batch_sequences = 1});
  }
  for (Rank rank = 0; rank < 4; ++rank) {
    CAPTURE(rank.value());
    int64_t elements = 0;
    for (const SegmentId segment : SavedSegments(plan, rank, model))
      elements += SegmentElements(model, segment);
    CHECK(elements <= ModelElements(model) / 4 + SegmentElements(model, SegmentOfBlock(1)));
    CHECK(elements >= ModelElements(model) / 4 - SegmentElements(model, SegmentOfBlock(1)));
  }
}

TEST_CASE("every element of the model counts once in the norm, whichever rank has it", "[property]") {
  for (const PlannedShape& planned : Plans()) {
    CAPTURE(Describe(planned.plan));
    const ModelConfig& model = planned.shape.model;
    std::vector<std::vector<int>> counted;  // by segment and element of the whole tensors
    for (SegmentId segment = 0; segment < SegmentCount(model); ++segment)
      counted.emplace_back(SegmentElements(model, segment), 0);
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      const RankPlace place = PlaceOf(planned.plan, rank);
      const ModelShare share = ShareOf(planned.plan, rank, model);
      const ParameterLayout layout =
          LayoutOf(LocalModel(model, share), planned.plan.units[place.unit].chunks);
      std::vector<bool> counts(layout.elements, false);  // of what the rank holds
      const std::vector<SegmentId> owned = OwnedSegments(planned.plan, rank, model);
      std::multiset<SegmentId> runs;
      for (const NormRun& run : NormRunsOf(layout, place.member)) {
        CHECK(run.elements > 0);
        runs.insert(run.segment);
        if (std::find(owned.begin(), owned.end(), run.segment) == owned.end()) continue;
        std::fill_n(counts.begin() + run.offset, run.elements, true);
      }
      for (const SegmentId segment : layout.segments) {
        const int most = SegmentElements(model, segment) == 0 ? 0 : place.member == 0 ? 1 : kMostNormRuns;
        CHECK(static_cast<int>(runs.count(segment)) <= most);
        CHECK(static_cast<int>(runs.count(segment)) >= (place.member == 0 ? most : 0));
      }
      for (size_t s = 0; s < layout.segments.size(); ++s) {
        int64_t held = layout.segment_offsets[s], whole = 0;
        for (const ParameterSpec& tensor : SegmentParameters(model, layout.segments[s])) {
          for (const HeldRun& run : HeldRuns(model, tensor, share)) {
            for (int64_t i = 0; i < run.count; ++i)
              counted[layout.segments[s]][whole + run.whole + i] += counts[held++];
          }
          whole += tensor.elements;
        }
      }
    }
    for (const std::vector<int>& times : counted) CHECK(times == std::vector<int>(times.size(), 1));
  }
}

}  // namespace
}  // namespace medley
