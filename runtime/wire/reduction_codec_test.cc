#include "runtime/wire/reduction_codec.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <random>

#include "runtime/wire/validate.h"

namespace medley {
namespace {

v1::TrainTask TaskOf(const std::vector<ReductionChoice>& reductions, int units) {
  v1::TrainTask task;
  for (int unit = 0; unit < units; ++unit)
    task.mutable_plan()->add_units()->add_devices("a/" + std::to_string(unit));
  for (const ReductionChoice& reduction : reductions) *task.add_reductions() = EncodeReduction(reduction);
  return task;
}

// A reduction over units 1, 3, 4, 6 and 8, two levels deep.
ReductionChoice Hierarchy() {
  return {.holders = {1, 3, 4, 6, 8},
          .elements = 1000,
          .choice = {
              .algorithm = CollectiveAlgorithm::kHierarchical,
              .shape = {.order = {4, 0, 2, 1, 3}, .levels = {{2, 2, 1}, {1, 2}}, .shares = {1, 2, 0, 1, 1}},
              .predicted_seconds = 0.25}};
}

ReductionChoice RandomReduction(std::mt19937& random, int units) {
  ReductionChoice reduction;
  while (reduction.holders.size() < 2) {
    reduction.holders.clear();
    for (int unit = 0; unit < units; ++unit) {
      if (random() % 2 == 0) reduction.holders.push_back(unit);
    }
  }
  reduction.elements = 1 + static_cast<int64_t>(random());
  reduction.choice.algorithm = static_cast<CollectiveAlgorithm>(random() % 4);
  reduction.choice.predicted_seconds = static_cast<double>(random()) * 1e-9;
  const size_t members = reduction.holders.size();
  GroupShape& shape = reduction.choice.shape;
  if (random() % 2 == 0) {
    shape.order.resize(members);
    std::iota(shape.order.begin(), shape.order.end(), 0);
    std::shuffle(shape.order.begin(), shape.order.end(), random);
  }
  if (random() % 2 == 0) {
    for (size_t i = 0; i < members; ++i) shape.shares.push_back(1 + static_cast<double>(random() % 3));
  }
  if (reduction.choice.algorithm != CollectiveAlgorithm::kHierarchical) return reduction;
  for (size_t left = members, level = random() % 3; level > 0; --level) {
    std::vector<int>& sizes = shape.levels.emplace_back();
    for (size_t cut = 0; cut < left;) {
      sizes.push_back(static_cast<int>(1 + random() % (left - cut)));
      cut += static_cast<size_t>(sizes.back());
    }
    left = sizes.size();
  }
  return reduction;
}

TEST_CASE("reductions come out as they went in, and hold to their rules on the wire") {
  const auto seed = GENERATE(range(0u, 100u));
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<ReductionChoice> reductions;
  for (int i = 0; i < 3; ++i)
    reductions.push_back(RandomReduction(random, 2 + static_cast<int>(random() % 9)));
  const v1::TrainTask task = TaskOf(reductions, 12);
  for (const v1::Reduction& reduction : task.reductions()) {
    const absl::Status valid = ValidateMessage(reduction);
    INFO(valid.ToString());
    CHECK(valid.ok());
  }
  const absl::StatusOr<std::vector<ReductionChoice>> decoded = DecodeReductions(task);
  INFO(decoded.status().ToString());
  REQUIRE(decoded.ok());
  CHECK(*decoded == reductions);
}

TEST_CASE("no reductions are none") { CHECK(DecodeReductions(TaskOf({}, 3))->empty()); }

TEST_CASE("entries that are wrong are refused by field") {
  struct Case {
    const char* said;
    std::function<void(ReductionChoice&)> spoil;
  };
  const std::vector<Case> cases = {
      {"reductions[1].holders: 1 are fewer than two", [](ReductionChoice& r) { r.holders = {1}; }},
      {"reductions[1].holders: 3, 1, 4, 6, 8 are not ascending",
       [](ReductionChoice& r) { std::swap(r.holders[0], r.holders[1]); }},
      {"reductions[1].holders: 1, 1, 4, 6, 8 are not ascending",
       [](ReductionChoice& r) { r.holders[1] = 1; }},
      {"reductions[1].holders: 1, 3, 4, 6, 9 are not all below 9, the plan's ranks",
       [](ReductionChoice& r) { r.holders[4] = 9; }},
      {"reductions[1].order: 4, 0, 2, 1 is no permutation of 0 to 4, the holders' places",
       [](ReductionChoice& r) { r.choice.shape.order.pop_back(); }},
      {"reductions[1].order: 4, 0, 2, 2, 3 is no permutation",
       [](ReductionChoice& r) { r.choice.shape.order[3] = 2; }},
      {"reductions[1].order: 5, 0, 2, 1, 3 is no permutation",
       [](ReductionChoice& r) { r.choice.shape.order[0] = 5; }},
      {"reductions[1].levels[0].group_sizes: 2, 2, 2 sum up to 6, not to 5, the holders",
       [](ReductionChoice& r) { r.choice.shape.levels[0][2] = 2; }},
      {"reductions[1].levels[1].group_sizes: 1, 1 sum up to 2, not to 3, the groups of the level before",
       [](ReductionChoice& r) { r.choice.shape.levels[1][1] = 1; }},
      {"reductions[1].levels: are given, but algorithm is not hierarchical",
       [](ReductionChoice& r) { r.choice.algorithm = CollectiveAlgorithm::kRing; }},
      {"reductions[1].shares: has 4 elements for 5 holders",
       [](ReductionChoice& r) { r.choice.shape.shares.pop_back(); }},
      {"reductions[1].shares: are all 0", [](ReductionChoice& r) { r.choice.shape.shares.assign(5, 0); }},
      {"reductions[1]: has the holders and the elements of reductions[0]",
       [](ReductionChoice& r) { r.elements = 1; }},
  };
  ReductionChoice first = Hierarchy();
  first.elements = 1;
  REQUIRE(DecodeReductions(TaskOf({first, Hierarchy()}, 9)).ok());
  for (const Case& one : cases) {
    ReductionChoice spoilt = Hierarchy();
    one.spoil(spoilt);
    const absl::Status status = DecodeReductions(TaskOf({first, spoilt}, 9)).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()), Catch::StartsWith(one.said));
  }
  v1::TrainTask task = TaskOf({Hierarchy()}, 9);
  task.mutable_reductions(0)->clear_algorithm();
  CHECK_THAT(std::string(DecodeReductions(task).status().message()),
             Catch::StartsWith("reductions[0].algorithm: 0"));
}

}  // namespace
}  // namespace medley
