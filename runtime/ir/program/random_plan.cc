#include "runtime/ir/program/random_plan.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/random_order.h"

namespace medley {
namespace {

// What units store activations as; f32 as often as all others.
constexpr int kMostParts = 4;
constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kF32, Dtype::kF32, Dtype::kBf16, Dtype::kF16};

// Of all layers of the unit, or of some.
void HomeActivations(Unit& unit, const ModelConfig& model, std::mt19937_64& random) {
  unit.activations_home = ActivationsHome::kHost;
  unit.homed_layers =
      random() % 2 == 0 ? std::uniform_int_distribution<int>(0, LayersOf(unit, model))(random) : 0;
}

}  // namespace

PlannedShape RandomPlan(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  PlannedShape result;
  ModelConfig& model = result.shape.model;
  model = {
      .layers = integer(1, 6), .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 20, .context = 8};
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
  plan.schedule = static_cast<Schedule>(integer(0, kSchedules - 1));
  for (int routes = integer(1, 4); routes > 0; --routes) {
    Route& route = plan.routes.emplace_back();
    route.micro_batches = integer(1, 12);
    route.micro_batch_sequences = integer(1, 3);
    const int most_cuts = model.blocks() - 1;
    for (const IndexRange& blocks :
         RandomCut(random, model.blocks(), 1 + std::min(integer(0, 4), most_cuts))) {
      route.units.push_back(static_cast<int>(plan.units.size()));
      plan.units.push_back(
          {.devices = {"n/" + std::to_string(plan.units.size())}, .chunks = {{blocks.first, blocks.end}}});
    }
  }
  // A unit's number says nothing about its place.
  std::vector<int> number(plan.units.size());
  std::iota(number.begin(), number.end(), 0);
  std::shuffle(number.begin(), number.end(), random);
  std::vector<Unit> units(plan.units.size());
  for (size_t u = 0; u < units.size(); ++u) {
    units[number[u]] = plan.units[u];
    units[number[u]].activations = kTypes[integer(0, 4)];
    if (integer(0, 3) == 0) units[number[u]].recompute = static_cast<Recompute>(integer(0, kRecomputes - 1));
  }
  plan.units = units;
  for (Route& route : plan.routes) {
    for (UnitId& u : route.units) u = number[u];
  }
  RecomputeFewerLayers(plan, model, seed);
  if (plan.schedule == Schedule::kListed) ListRandomOrders(plan, seed);
  result.shape.global_batch_sequences = SequencesOf(plan);
  return result;
}

PlannedShape RandomWidePlan(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  PlannedShape result;
  ModelConfig& model = result.shape.model;
  model = {
      .layers = integer(2, 8), .hidden = 8, .heads = 4, .feed_forward = 32, .vocabulary = 20, .context = 8};
  if (integer(0, 2) == 0) {
    model.family = ModelFamily::kLlama;
    model.key_value_heads = integer(1, 2);
    model.head_size = 2;
  }
  result.shape.sequence = integer(4, 8);
  Plan& plan = result.plan;
  plan.schedule = static_cast<Schedule>(integer(0, kSchedules - 1));
  const int ranges = 1 + std::min(integer(0, 6), model.blocks() - 1);
  const int units = integer(2, 4);
  AddRandomUnits(plan, RandomCut(random, model.blocks(), ranges), units, random);
  for (size_t u = 0; u < plan.units.size(); ++u) {
    Unit& unit = plan.units[u];
    unit.activations = kTypes[integer(0, 4)];
    unit.recompute = static_cast<Recompute>(integer(0, kRecomputes - 1));
    const int degree = integer(1, 3);
    if (degree > 1 && integer(0, 1) == 0) unit.shares = RandomShares(random, model, degree);
    for (int d = 0; d < degree; ++d)
      unit.devices.push_back("n" + std::to_string(u) + "/" + std::to_string(d));
  }
  for (Route& route : plan.routes) {
    route.micro_batches = integer(1, 8);
    route.micro_batch_sequences = integer(1, 3);
  }
  for (Unit& unit : plan.units) {
    if (unit.devices.size() > 1) unit.sequence_parallel = integer(0, 1) == 1;
  }
  RecomputeFewerLayers(plan, model, seed);
  CutIntoPartsAtRandom(plan, seed);
  if (plan.schedule == Schedule::kListed) ListRandomOrders(plan, seed);
  result.shape.global_batch_sequences = SequencesOf(plan);
  return result;
}

void AddRandomUnits(Plan& plan, const std::vector<IndexRange>& ranges, int units, std::mt19937_64& random) {
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  // Who may hold each range: of two units one at a time, so that there is one for the next range.
  const int most = units == 2 && ranges.size() > 1 ? 1 : 2;
  std::vector<std::vector<int>> holders;
  for (size_t range = 0; range < ranges.size(); ++range) {
    std::vector<int> free;
    for (int u = 0; u < units; ++u) {
      const bool before = !holders.empty() && std::count(holders.back().begin(), holders.back().end(), u) > 0;
      if (!before) free.push_back(u);
    }
    std::shuffle(free.begin(), free.end(), random);
    free.resize(std::min<size_t>(integer(1, most), free.size()));
    holders.push_back(free);
  }
  std::vector<std::vector<BlockRange>> chunks(units);
  std::vector<std::vector<int>> chosen(integer(1, 3));  // of each route, the unit of each range
  for (std::vector<int>& route : chosen) {
    for (size_t range = 0; range < ranges.size(); ++range) {
      route.push_back(holders[range][integer(0, static_cast<int>(holders[range].size()) - 1)]);
      const BlockRange blocks = {ranges[range].first, ranges[range].end};
      std::vector<BlockRange>& held = chunks[route.back()];
      if (std::find(held.begin(), held.end(), blocks) == held.end()) held.push_back(blocks);
    }
  }
  std::vector<int> number(units, -1);  // of those that a route visits
  for (int u = 0; u < units; ++u) {
    if (chunks[u].empty()) continue;
    number[u] = static_cast<int>(plan.units.size());
    std::sort(chunks[u].begin(), chunks[u].end(),
              [](const BlockRange& a, const BlockRange& b) { return a.first < b.first; });
    plan.units.emplace_back().chunks.assign(chunks[u].begin(), chunks[u].end());
  }
  for (const std::vector<int>& route : chosen) {
    Route& added = plan.routes.emplace_back();
    for (const int u : route) added.units.push_back(number[u]);
  }
}

void CutIntoPartsAtRandom(Plan& plan, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (Unit& unit : plan.units) {
    if (unit.devices.size() < 2 || unit.sequence_parallel) continue;
    unit.exchange_parts = std::uniform_int_distribution<int>(1, kMostParts)(random);
  }
}

void RecomputeFewerLayers(Plan& plan, const ModelConfig& model, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (Unit& unit : plan.units) {
    const int layers = LayersOf(unit, model);
    if (unit.recompute != Recompute::kNone && random() % 2 == 0)
      unit.recomputed_layers = std::uniform_int_distribution<int>(0, layers)(random);
  }
}

void MoveLayersToHost(Plan& plan, const ModelConfig& model, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (Unit& unit : plan.units) {
    const int layers = LayersOf(unit, model);
    if (random() % 2 == 0) unit.window_layers = std::uniform_int_distribution<int>(0, layers)(random);
  }
}

bool MoveLayersToPeers(Plan& plan, const ModelConfig& model, uint64_t seed) {
  if (plan.routes.size() < 2 || !PassesEachUnitOnce(plan)) return false;
  std::mt19937_64 random(seed);
  ShardOptimizer(plan, model, seed);
  plan.schedule = Schedule::kGPipe;
  const LayersHome home = random() % 3 == 0 ? LayersHome::kGradientsOnPeers : LayersHome::kPeers;
  const bool stay = random() % 3 == 0;  // each in its window
  for (Unit& unit : plan.units) {
    unit.order.clear();
    unit.paces.clear();
    unit.layers_home = home;
    unit.KeepActivationsOnDevice();
    if (stay && random() % 2 == 0) HomeActivations(unit, model, random);
    const int layers = LayersOf(unit, model);
    unit.window_layers =
        layers == 0 ? 0 : std::uniform_int_distribution<int>(stay ? layers : 1, layers)(random);
  }
  return true;
}

void MoveActivationsToHost(Plan& plan, const ModelConfig& model, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (Unit& unit : plan.units) {
    const bool may = !unit.lives_on_peers();  // where windows take all layers: MoveLayersToPeers
    if (random() % 4 != 0 && may) HomeActivations(unit, model, random);
  }
}

void ShardOptimizer(Plan& plan, const ModelConfig& model, uint64_t seed) {
  std::mt19937_64 random(seed);
  plan.shards_optimizer = true;
  for (Unit& unit : plan.units) unit.optimizer_weight = std::uniform_int_distribution<int>(0, 3)(random);
  for (SegmentId segment = 0; segment < SegmentCount(model); ++segment) {
    const std::vector<UnitId> holders = HoldersOf(plan, model, segment);
    const bool carried = std::any_of(holders.begin(), holders.end(),
                                     [&](UnitId unit) { return plan.units[unit].optimizer_weight > 0; });
    if (!carried && !holders.empty()) plan.units[holders.back()].optimizer_weight = 1;
  }
}

}  // namespace medley
