#include "runtime/ir/program/gradient_slices.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

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
      for (const NormRun& run :
           NormRunsOf(layout, CountedBy(planned.plan.units[place.unit], model, place.member))) {
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

// Which element of the whole model each element of a rank's arena is, as (tensor, index).
using Element = std::pair<std::string, int64_t>;
std::vector<Element> ElementsOf(const Plan& plan, Rank rank, const ModelConfig& model) {
  const auto& chunks = plan.units[PlaceOf(plan, rank).unit].chunks;
  const ModelShare share = ShareOf(plan, rank, model);
  const ParameterLayout held = LayoutOf(LocalModel(model, share), chunks), whole = LayoutOf(model, chunks);
  std::vector<Element> elements(held.elements);
  for (size_t t = 0; t < held.parameters.size(); ++t) {
    const PlacedParameter& placed = held.parameters[t];
    for (const HeldRun& run : HeldRuns(model, whole.parameters[t].spec, share)) {
      for (int64_t i = 0; i < run.count; ++i)
        elements[placed.offset + run.held + i] = {placed.spec.name, run.whole + i};
    }
  }
  return elements;
}

// Which elements of an arena are of tensors that are cut.
std::vector<bool> CutElements(const ParameterLayout& held) {
  std::vector<bool> cut(held.elements, false);
  for (const PlacedParameter& placed : held.parameters)
    std::fill_n(cut.begin() + placed.offset, placed.spec.elements, placed.spec.cut != TensorCut::kNone);
  return cut;
}

// Elements of the rank's arena that a slice of it sums, in its order.
std::vector<int64_t> SummedBy(const GradientSlice& slice, const ParameterLayout& held) {
  const auto offset = [&](SegmentId segment) {
    for (size_t i = 0; i < held.segments.size(); ++i) {
      if (held.segments[i] >= segment) return held.segment_offsets[i];
    }
    return held.elements;
  };
  const int64_t first = offset(slice.first_segment);
  std::vector<ArenaRuns> runs = slice.runs;
  if (runs.empty()) runs = {{.count = offset(slice.end_segment) - first}};
  std::vector<int64_t> summed;
  for (const ArenaRuns& run : runs) {
    for (int64_t r = 0; r < run.repeats; ++r) {
      for (int64_t i = 0; i < run.count; ++i) summed.push_back(first + run.first + r * run.stride + i);
    }
  }
  return summed;
}

TEST_CASE(
    "every element that several units hold is summed once over all that hold it, however they cut it; so are "
    "the keys "
    "and values that ranks of one unit share",
    "[property]") {
  int of_one_unit = 0;
  for (const PlannedShape& planned : Plans()) {
    const ModelConfig& model = planned.shape.model;
    CAPTURE(Describe(planned.plan));
    std::vector<std::vector<Element>> elements;  // by rank
    std::map<Element, std::vector<Rank>> holders;
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      elements.push_back(ElementsOf(planned.plan, rank, model));
      for (const Element& element : elements.back()) holders[element].push_back(rank);
    }
    struct Sum {
      std::vector<Element> elements;
      std::set<Rank> ranks;
      std::map<UnitId, int> counted;  // how many ranks of a unit add their values
    };
    std::map<std::tuple<SegmentId, std::vector<Rank>, bool>, Sum> sums;
    for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
      const UnitId unit = PlaceOf(planned.plan, rank).unit;
      const ParameterLayout held =
          LayoutOf(LocalModel(model, ShareOf(planned.plan, rank, model)), planned.plan.units[unit].chunks);
      const std::vector<bool> cut = CutElements(held);
      std::vector<int> times(elements[rank].size(), 0);
      for (const GradientSlice& slice : SlicesOf(planned.plan, rank, model)) {
        REQUIRE(slice.holders.size() > 1);
        std::vector<Element> summed;
        bool is_cut = false;
        for (const int64_t at : SummedBy(slice, held)) {
          ++times[at];
          summed.push_back(elements[rank][at]);
          is_cut = is_cut || cut[at];
          if (cut[at]) REQUIRE(slice.holders == holders[elements[rank][at]]);
        }
        CHECK(static_cast<int64_t>(summed.size()) == slice.elements);
        Sum& sum = sums[{slice.first_segment, slice.holders, is_cut}];
        if (sum.ranks.empty()) sum.elements = summed;
        CHECK(sum.elements == summed);  // in one order for all
        sum.ranks.insert(rank);
        sum.counted[unit] += slice.counts ? 1 : 0;
      }
      for (size_t i = 0; i < held.segments.size(); ++i) {
        const int64_t end = i + 1 < held.segments.size() ? held.segment_offsets[i + 1] : held.elements;
        const bool shared = HoldersOf(planned.plan, model, held.segments[i]).size() > 1;
        for (int64_t at = held.segment_offsets[i]; at < end; ++at) {
          const bool has_copies = !shared && cut[at] && holders[elements[rank][at]].size() > 1;
          REQUIRE(times[at] == (shared || has_copies ? 1 : 0));
        }
      }
    }
    for (const auto& [key, sum] : sums) {
      const auto& [segment, ranks, is_cut] = key;
      CHECK(std::vector<Rank>(sum.ranks.begin(), sum.ranks.end()) == ranks);
      std::vector<UnitId> units;
      for (const auto& [unit, counted] : sum.counted) {
        units.push_back(unit);
        // Of what is cut all have gradients of their own, of the rest one of a unit tells that of all.
        const auto of_unit = std::count_if(sum.ranks.begin(), sum.ranks.end(), [&, of = unit](Rank rank) {
          return PlaceOf(planned.plan, rank).unit == of;
        });
        CHECK(counted == (is_cut ? of_unit : 1));
      }
      CHECK(units == HoldersOf(planned.plan, model, segment));
      of_one_unit += units.size() == 1;
    }
  }
  CHECK(of_one_unit > 50);
}

}  // namespace
}  // namespace medley
