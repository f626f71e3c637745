#include "runtime/program/random_plan.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

namespace medley {

PlannedShape RandomPlan(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto integer = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  PlannedShape result;
  ModelConfig& model = result.shape.model;
  model = {.layers = integer(1, 6), .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 20, .context = 8};
  if (integer(0, 1) == 1) {  // a Llama of every kind
    model.family = ModelFamily::kLlama;
    model.tied_head = integer(0, 1) == 1;
    model.heads = 4;
    model.key_value_heads = integer(0, 1) == 1 ? 2 : 4;
    model.head_size = integer(0, 1) == 1 ? 2 : 6;  // also heads that are wider than the residual stream
    model.feed_forward = 24;
  }
  result.shape.sequence = integer(1, 8);
  Plan& plan = result.plan;
  plan.schedule = integer(0, 1) == 0 ? Schedule::kGPipe : Schedule::kOneForwardOneBackward;
  for (int routes = integer(1, 4); routes > 0; --routes) {
    Route& route = plan.routes.emplace_back();
    route.micro_batches = integer(1, 12);
    route.micro_batch_sequences = integer(1, 3);
    result.shape.global_batch_sequences += route.micro_batches * route.micro_batch_sequences;
    std::vector<int> cuts(model.blocks() - 1);
    std::iota(cuts.begin(), cuts.end(), 1);
    std::shuffle(cuts.begin(), cuts.end(), random);
    cuts.resize(std::min<int>(integer(0, 4), static_cast<int>(cuts.size())));
    cuts.push_back(model.blocks());
    std::sort(cuts.begin(), cuts.end());
    int first = 0;
    for (const int end : cuts) {
      route.units.push_back(static_cast<int>(plan.units.size()));
      plan.units.push_back({"n/" + std::to_string(plan.units.size()), {first, end}});
      first = end;
    }
  }
  // A unit's number says nothing about its place.
  std::vector<int> number(plan.units.size());
  std::iota(number.begin(), number.end(), 0);
  std::shuffle(number.begin(), number.end(), random);
  std::vector<Unit> units(plan.units.size());
  for (size_t u = 0; u < units.size(); ++u) units[number[u]] = plan.units[u];
  plan.units = units;
  for (Route& route : plan.routes) {
    for (int& u : route.units) u = number[u];
  }
  return result;
}

}  // namespace medley
