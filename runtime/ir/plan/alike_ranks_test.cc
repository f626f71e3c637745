#include "runtime/ir/plan/alike_ranks.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

// Pipelines of two stages, the second one of which has two devices, side by side.
Plan Pipelines(int routes) {
  Plan plan;
  for (int r = 0; r < routes; ++r) {
    const int first = static_cast<int>(plan.units.size());
    plan.units.push_back({{absl::StrCat("a", r)}, {{0, 3}}});
    plan.units.push_back({{absl::StrCat("b", r), absl::StrCat("c", r)}, {{3, 6}}});
    plan.routes.push_back({{first, first + 1}, 4, 2});
  }
  return plan;
}

std::vector<int> StandIns(const Plan& plan, const std::vector<std::string>& of_routes = {}) {
  std::vector<int> stand_ins;
  for (const Rank rank : StandInsOf(plan, [&](const std::vector<int>& routes) {
         return of_routes.empty() ? std::string() : of_routes[routes.front()];
       }))
    stand_ins.push_back(rank.value());
  return stand_ins;
}

TEST_CASE(
    "ranks at the same places of routes alike tell of each other, but for the first holders of blocks") {
  CHECK(StandIns(Pipelines(1)) == std::vector<int>{0, 1, 2});
  // The first route answers for the norms of all.
  CHECK(StandIns(Pipelines(4)) == std::vector<int>{0, 1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5});
  CHECK(StandIns(Pipelines(4), {"", "x", "", "x"}) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 3, 4, 5});
}

TEST_CASE("what a unit does, what a route brings and with whom it is shared tells ranks apart") {
  const std::vector<int> alike = StandIns(Pipelines(3));
  const auto differs = [&](const auto& change) {
    Plan plan = Pipelines(3);
    change(plan);
    const std::vector<int> stand_ins = StandIns(plan);
    return stand_ins[6] == 6 && stand_ins[7] == 7 && stand_ins[3] == alike[3];
  };
  CHECK_FALSE(differs([](Plan&) {}));
  CHECK_FALSE(differs([](Plan& plan) { plan.units[5].devices[0] = "elsewhere"; }));
  CHECK(differs([](Plan& plan) { plan.routes[2].micro_batches = 5; }));
  CHECK(differs([](Plan& plan) { plan.routes[2].micro_batch_sequences = 1; }));
  CHECK(differs([](Plan& plan) { plan.units[5].chunks[0].end = 7; }));
  CHECK(differs([](Plan& plan) { plan.units[5].recompute = Recompute::kLayers; }));
  CHECK(differs([](Plan& plan) { plan.units[5].recomputed_layers = 1; }));
  CHECK(differs([](Plan& plan) { plan.units[4].activations = Dtype::kBf16; }));
  CHECK(differs([](Plan& plan) { plan.units[5].sequence_parallel = true; }));
  CHECK(differs([](Plan& plan) { plan.units[5].exchange_parts = 2; }));
  CHECK(differs([](Plan& plan) { plan.units[4].window_layers = 1; }));
  CHECK(differs([](Plan& plan) { plan.units[4].layers_home = LayersHome::kPeers; }));
  CHECK(differs([](Plan& plan) { plan.units[4].activations_home = ActivationsHome::kHost; }));
  CHECK(differs([](Plan& plan) { plan.units[4].homed_layers = 1; }));
  CHECK(differs([](Plan& plan) { plan.units[4].optimizer_weight = 3; }));
  CHECK(differs([](Plan& plan) { plan.units[4].forwards_ahead = 1; }));
  CHECK(differs([](Plan& plan) { plan.units[4].paces = {{.forward_nanoseconds = 7}}; }));
  CHECK(differs([](Plan& plan) {
    plan.units[5].shares.resize(2);
    plan.units[5].shares[0].feed_forward.end = 9;
  }));
  CHECK(differs([](Plan& plan) {
    plan.units[4].order = {{.kind = UnitOp::Kind::kForward, .visit = 0, .micro_batch = 0}};
  }));
  // A route more over one of its units.
  CHECK(differs([](Plan& plan) {
    plan.units.push_back({{"d"}, {{0, 3}}});
    plan.routes.push_back({{6, 5}, 4, 2});
  }));
}

}  // namespace
}  // namespace medley
