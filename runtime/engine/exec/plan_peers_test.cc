#include "runtime/engine/exec/plan_peers.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>

#include "runtime/engine/exec/unlike_plans.h"
#include "runtime/ir/collective/random_collective.h"
#include "runtime/ir/program/program.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {
namespace {

TrainingSpec SpecOf(const TrainingShape& shape) {
  TrainingSpec spec;
  spec.shape = shape;
  spec.checkpoint_directory = "somewhere";
  return spec;
}

// How each sum of the plan is made, at random.
std::vector<ReductionChoice> RandomReductions(const Plan& plan, const TrainingShape& shape, Random& random) {
  std::map<std::pair<std::vector<Rank>, int64_t>, CollectiveChoice> choices;
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    for (const GradientSlice& slice : SlicesOf(plan, rank, shape.model)) {
      const auto [choice, is_new] = choices.try_emplace({slice.holders, slice.elements});
      if (is_new) choice->second = RandomChoice(random, static_cast<int>(slice.holders.size()));
    }
  }
  std::vector<ReductionChoice> reductions;
  for (const auto& [key, choice] : choices) reductions.push_back({key.first, key.second, choice});
  return reductions;
}

std::vector<std::vector<int>> PeersByRank(const Plan& plan, const TrainingSpec& spec,
                                          const std::vector<ReductionChoice>& reductions) {
  std::vector<std::vector<int>> peers;
  for (Rank rank = 0; rank < RankCount(plan); ++rank)
    peers.push_back(PlanPeers(plan, CompileStep(plan, rank, spec.shape, Purpose::kTrain), spec, reductions));
  return peers;
}

void CheckMutual(const std::vector<std::vector<int>>& peers) {
  for (int rank = 0; rank < static_cast<int>(peers.size()); ++rank) {
    REQUIRE(std::is_sorted(peers[rank].begin(), peers[rank].end()));
    for (const int peer : peers[rank]) {
      CAPTURE(rank, peer);
      REQUIRE(peer != rank);
      REQUIRE(std::binary_search(peers[peer].begin(), peers[peer].end(), rank));
    }
  }
}

// `count` units of one device that hold the whole model, with a sequence each.
Plan Replicas(int count, const ModelConfig& model) {
  Plan plan;
  for (int i = 0; i < count; ++i) {
    plan.units.push_back({.devices = {"test/" + std::to_string(i)}, .chunks = {{0, model.blocks()}}});
    plan.routes.push_back({.units = {i}, .micro_batches = 1, .micro_batch_sequences = 1});
  }
  return plan;
}

const ModelConfig kTiny = {
    .layers = 2, .hidden = 4, .heads = 2, .feed_forward = 8, .vocabulary = 11, .context = 4};

TEST_CASE("who names a rank is named by it, whatever the plan and the ways of its sums", "[property]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    PlannedShape planned = seed % 2 == 0 ? RandomPlan(seed) : RandomWidePlan(seed);
    if (seed % 3 == 0) ShardOptimizer(planned.plan, planned.shape.model, seed);
    CAPTURE(seed);
    CheckMutual(PeersByRank(planned.plan, SpecOf(planned.shape),
                            RandomReductions(planned.plan, planned.shape, random)));
  }
  for (const ModelConfig& model : ModelsToShare()) {
    const TrainingShape shape = {
        .model = model, .sequence = model.context, .global_batch_sequences = kUnlikeBatch};
    for (const NamedPlan& named : UnlikePlans(model)) {
      CAPTURE(named.name);
      CheckMutual(PeersByRank(named.plan, SpecOf(shape), {}));
    }
  }
}

TEST_CASE("of many replicas each has few peers: neighbours in the ring and in the trees") {
  constexpr int kReplicas = 300;
  const Plan plan = Replicas(kReplicas, kTiny);
  const TrainingSpec spec = SpecOf({.model = kTiny, .sequence = 4, .global_batch_sequences = kReplicas});
  const std::vector<std::vector<int>> peers = PeersByRank(plan, spec, {});
  CheckMutual(peers);
  // Of the trees the first of 64 has the most: 7 followers twice, and those beside it.
  for (const std::vector<int>& of : peers) CHECK(of.size() <= 2 + 7 + 7 + 4);
  CHECK(peers[5] == std::vector<int>{0, 4, 6});
}

TEST_CASE(
    "of many replicas that share the optimizer's state, writers of checkpoints know all, and all know them") {
  constexpr int kReplicas = 40;
  Plan plan = Replicas(kReplicas, kTiny);
  plan.shards_optimizer = true;
  TrainingSpec spec = SpecOf({.model = kTiny, .sequence = 4, .global_batch_sequences = kReplicas});
  const std::vector<Rank> writers = SegmentWriters(plan, kTiny);
  const std::vector<std::vector<int>> peers = PeersByRank(plan, spec, {});
  CheckMutual(peers);
  for (const Rank writer : writers) CHECK(peers[writer.value()].size() == kReplicas - 1);
  CHECK(peers[30].size() <= writers.size() + 2 + 7);
  spec.checkpoint_directory.clear();  // nothing is written
  CHECK(PlanPeers(plan, CompileStep(plan, 30, spec.shape, Purpose::kTrain), spec, {}) ==
        std::vector<int>{24, 29, 31});
}

TEST_CASE("stages far from each other in a pipeline have no connection") {
  constexpr int kStages = 30;
  ModelConfig model = kTiny;
  model.layers = kStages - 2;
  Plan plan;
  Route route{.micro_batches = 4, .micro_batch_sequences = 1};
  for (int i = 0; i < kStages; ++i) {
    plan.units.push_back({.devices = {"test/" + std::to_string(i)}, .chunks = {{i, i + 1}}});
    route.units.push_back(i);
  }
  plan.routes = {route};
  const TrainingSpec spec = SpecOf({.model = model, .sequence = 4, .global_batch_sequences = 4});
  CheckMutual(PeersByRank(plan, spec, {}));
  CHECK(PlanPeers(plan, CompileStep(plan, 13, spec.shape, Purpose::kTrain), spec, {}) ==
        std::vector<int>{8, 12, 14});
}

}  // namespace
}  // namespace medley
