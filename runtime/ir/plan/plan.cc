#include "runtime/ir/plan/plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/counted.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/model/row_counts.h"

namespace medley {
namespace {

// " in shares of 3:1 heads, 20:12 columns"; nothing where they are even, or nearly so.
std::string DescribeShares(const Unit& unit) {
  const auto sizes = [&](IndexRange ModelShare::*part) {
    std::vector<int> result;
    for (const ModelShare& share : unit.shares) result.push_back((share.*part).size());
    return result;
  };
  const bool by_queries = !unit.shares.empty() && unit.shares.front().query_heads.size() > 0;
  const std::vector<int> heads = sizes(by_queries ? &ModelShare::query_heads : &ModelShare::key_value_heads),
                         columns = sizes(&ModelShare::feed_forward);
  const auto even = [](const std::vector<int>& of) {
    return of.empty() ||
           *std::max_element(of.begin(), of.end()) <= *std::min_element(of.begin(), of.end()) + 1;
  };
  if (even(heads) && even(columns)) return "";
  return absl::StrCat(" in shares of ", absl::StrJoin(heads, ":"), " heads, ", absl::StrJoin(columns, ":"),
                      " columns");
}

// " recomputing layers", " recomputing all but attention of 3 layers"; empty: nothing.
std::string DescribeRecompute(const Unit& unit) {
  if (unit.recompute == Recompute::kNone) return "";
  if (unit.recomputed_layers == 0) return absl::StrCat(" recomputing ", NameOf(unit.recompute));
  return absl::StrCat(
      " recomputing ",
      unit.recompute == Recompute::kLayers ? "" : absl::StrCat(NameOf(unit.recompute), " of "),
      Counted(unit.recomputed_layers, "layer"));
}

// " activations on the host", " activations of 3 layers on the host"; empty: none.
std::string DescribeActivationsHome(const Unit& unit) {
  if (unit.activations_home == ActivationsHome::kDevice) return "";
  return absl::StrCat(
      " activations ",
      unit.homed_layers > 0 ? absl::StrCat("of ", Counted(unit.homed_layers, "layer"), " ") : "",
      "on the host");
}

std::string Describe(LayersHome home) {
  switch (home) {
    case LayersHome::kHost:
      return " layers on the host";
    case LayersHome::kGradientsOnPeers:
      return " gradients on the peers";
    case LayersHome::kPeers:
      return " layers on the peers";
  }
  return "";
}

std::string DescribeRoute(const Plan& plan, const Route& route) {
  std::string text = "[";
  const char* separator = "";
  BlockId first_block = 0;
  for (const UnitId u : route.units) {
    const Unit& unit = plan.units[u];
    const int chunk = ChunkFrom(unit, first_block);
    if (chunk < 0) break;
    const BlockRange& blocks = unit.chunks[chunk];
    absl::StrAppend(
        &text, separator, absl::StrJoin(unit.devices, "+"), DescribeShares(unit),
        unit.sequence_parallel ? " sequence parallel" : "",
        unit.exchange_parts > 1 ? absl::StrCat(" in ", unit.exchange_parts, " parts") : "", " blocks ",
        blocks.first.value(), "-", blocks.end - 1,
        unit.activations == Dtype::kF32 ? "" : absl::StrCat(" in ", std::string(NameOf(unit.activations))),
        DescribeRecompute(unit),
        unit.has_windows() ? absl::StrCat(Describe(unit.layers_home), ", ", unit.window_layers, " at a time")
                           : "",
        DescribeActivationsHome(unit));
    separator = " -> ";
    first_block = blocks.end;
  }
  absl::StrAppend(&text, "] x ", route.micro_batches);
  return text;
}

// Each once, as routes come to them.
std::vector<UnitId> UnitsByRoute(const Plan& plan) {
  std::vector<UnitId> units;
  std::vector<bool> known(plan.units.size(), false);
  for (const Route& route : plan.routes) {
    for (const UnitId u : route.units) {
      if (!known[u]) units.push_back(u);
      known[u] = true;
    }
  }
  return units;
}

}  // namespace

bool HasWindowsForAllLayers(const Plan& plan, const ModelConfig& config) {
  return std::all_of(plan.units.begin(), plan.units.end(),
                     [&](const Unit& unit) { return unit.window_layers >= LayersOf(unit, config); });
}

int SequencesOf(const Plan& plan) {
  int sequences = 0;
  for (const Route& route : plan.routes) sequences += route.micro_batches * route.micro_batch_sequences;
  return sequences;
}

bool PassesEachUnitOnce(const Plan& plan) {
  size_t passed = 0;
  for (const Route& route : plan.routes) passed += route.units.size();
  return passed == plan.units.size();
}

int ChunkFrom(const Unit& unit, BlockId first_block) {
  const auto chunk = std::find_if(unit.chunks.begin(), unit.chunks.end(),
                                  [&](const BlockRange& range) { return range.first == first_block; });
  return chunk == unit.chunks.end() ? -1 : static_cast<int>(chunk - unit.chunks.begin());
}

Visits VisitsOf(const Plan& plan, UnitId unit) {
  Visits visits;
  int first_micro_batch = 0, first_sequence = 0;
  for (int r = 0; r < static_cast<int>(plan.routes.size()); ++r) {
    const Route& route = plan.routes[r];
    const int stages = static_cast<int>(route.units.size());
    BlockId first_block = 0;
    for (StageId s = 0; s < stages; ++s) {
      const Unit& passed = plan.units[route.units[s]];
      const int chunk = ChunkFrom(passed, first_block);
      if (chunk < 0) break;
      first_block = passed.chunks[chunk].end;
      if (route.units[s] != unit) continue;
      visits.push_back({.route = r,
                        .stage = s,
                        .stages = stages,
                        .chunk = chunk,
                        .previous = s > 0 ? route.units[s - 1] : UnitId(),
                        .next = s + 1 < stages ? route.units[s + 1] : UnitId(),
                        .first_micro_batch = first_micro_batch,
                        .micro_batches = route.micro_batches,
                        .micro_batch_sequences = route.micro_batch_sequences,
                        .first_sequence = first_sequence});
    }
    first_micro_batch += route.micro_batches;
    first_sequence += route.micro_batches * route.micro_batch_sequences;
  }
  return visits;
}

int RankCount(const Plan& plan) { return FirstRankOf(plan, static_cast<int>(plan.units.size())); }

Rank FirstRankOf(const Plan& plan, UnitId unit) {
  int rank = 0;
  for (int u = 0; u < unit; ++u) rank += static_cast<int>(plan.units[u].devices.size());
  return rank;
}

std::vector<Rank> FirstRanksOf(const Plan& plan, const std::vector<UnitId>& units) {
  std::vector<Rank> first_ranks;
  int rank = 0, counted = 0;  // units
  for (const UnitId unit : units) {
    for (; counted < unit; ++counted) rank += static_cast<int>(plan.units[counted].devices.size());
    first_ranks.push_back(rank);
  }
  return first_ranks;
}

std::vector<int> RanksOf(const Plan& plan, UnitId unit) {
  std::vector<int> ranks(plan.units[unit].devices.size());
  std::iota(ranks.begin(), ranks.end(), FirstRankOf(plan, unit).value());
  return ranks;
}

RankPlace PlaceOf(const Plan& plan, Rank rank) {
  int member = rank;
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    const int degree = static_cast<int>(plan.units[u].devices.size());
    if (member < degree) return {u, member};
    member -= degree;
  }
  return {};
}

const std::string& DeviceOf(const Plan& plan, Rank rank) {
  const RankPlace place = PlaceOf(plan, rank);
  return plan.units[place.unit].devices[place.member];
}

std::vector<std::string> DevicesOf(const Plan& plan) {
  std::vector<std::string> devices;
  for (const Unit& unit : plan.units) devices.insert(devices.end(), unit.devices.begin(), unit.devices.end());
  return devices;
}

std::vector<ModelShare> SharesOf(const Unit& unit, const ModelConfig& config) {
  return unit.shares.empty() ? EvenShares(config, static_cast<int>(unit.devices.size())) : unit.shares;
}

bool ShareKeys(const Unit& unit, const ModelConfig& config) {
  if (unit.shares.empty()) return static_cast<int>(unit.devices.size()) > config.key_value_head_count();
  return unit.devices.size() > 1 && ShareKeys(config, unit.shares);
}

ModelShare ShareOf(const Plan& plan, Rank rank, const ModelConfig& config) {
  const RankPlace place = PlaceOf(plan, rank);
  const Unit& unit = plan.units[place.unit];
  if (unit.devices.size() == 1) return WholeModel(config);
  return SharesOf(unit, config)[place.member];
}

bool Holds(const Unit& unit, BlockId block) { return Holds(unit.chunks, block); }

int LayersOf(const Unit& unit, const ModelConfig& config) {
  int layers = 0;
  for (const BlockRange& chunk : unit.chunks) {
    for (BlockId block = chunk.first; block < chunk.end; ++block) layers += config.is_layer(block) ? 1 : 0;
  }
  return layers;
}

std::vector<UnitId> HoldersOf(const Plan& plan, const ModelConfig& config, SegmentId segment) {
  std::vector<UnitId> holders;
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    if (HoldsSegment(config, plan.units[u].chunks, segment)) holders.push_back(u);
  }
  return holders;
}

std::string NameOf(Schedule schedule) {
  switch (schedule) {
    case Schedule::kOneForwardOneBackward:
      return "1f1b";
    case Schedule::kGPipe:
      return "gpipe";
    case Schedule::kZeroBubbleH1:
      return "zb-h1";
    case Schedule::kInterleaved1F1B:
      return "interleaved-1f1b";
    case Schedule::kInterleavedGPipe:
      return "interleaved-gpipe";
    case Schedule::kZeroBubbleV:
      return "zb-v";
    case Schedule::kListed:
      return "listed";
  }
  return "?";
}

bool IsPlanned(Schedule schedule) {
  return std::find(std::begin(kPlannedSchedules), std::end(kPlannedSchedules), schedule) !=
         std::end(kPlannedSchedules);
}

std::vector<int> MicroBatchSizesOf(const Plan& plan) {
  std::set<int> sizes;
  for (const Route& route : plan.routes) sizes.insert(route.micro_batch_sequences);
  return {sizes.begin(), sizes.end()};
}

std::vector<int> PassSizesOf(const Plan& plan) {
  std::set<int> sizes;
  for (const Route& route : plan.routes) {
    sizes.insert(route.micro_batch_sequences);
    for (const UnitId u : route.units) {
      const int parts = plan.units[u].exchange_parts;
      if (PartsCutSequences(route.micro_batch_sequences, parts)) continue;
      for (const RowRange& part : PartsOf(route.micro_batch_sequences, parts))
        sizes.insert(static_cast<int>(part.size()));
    }
  }
  return {sizes.begin(), sizes.end()};
}

std::string Describe(const Plan& plan) {
  const std::vector<int> sizes = MicroBatchSizesOf(plan);
  std::string text = absl::StrCat(Counted(plan.routes.size(), "route"),
                                  sizes.size() == 1 ? ", micro-batch " : ", micro-batches ",
                                  absl::StrJoin(sizes, ", "), ", ", NameOf(plan.schedule));
  if (plan.shards_optimizer) {
    const auto weight = [&](std::string* out, UnitId unit) {
      absl::StrAppend(out, plan.units[unit].optimizer_weight);
    };
    const bool evenly = std::all_of(plan.units.begin(), plan.units.end(), [&](const Unit& unit) {
      return unit.optimizer_weight == plan.units.front().optimizer_weight;
    });
    constexpr size_t kMostWeights = 64;
    absl::StrAppend(&text, ", optimizer sharded ",
                    evenly                             ? "evenly"
                    : plan.units.size() > kMostWeights ? "unevenly"
                                                       : absl::StrJoin(UnitsByRoute(plan), ":", weight));
  }
  if (plan.post_validation) absl::StrAppend(&text, ", post-validation");
  // Those that read alike are told once.
  std::vector<std::pair<std::string, int>> routes;
  std::map<std::string, size_t> known;
  for (const Route& route : plan.routes) {
    std::string of_route = DescribeRoute(plan, route);
    if (sizes.size() > 1) absl::StrAppend(&of_route, " of ", route.micro_batch_sequences);
    const auto [place, is_new] = known.emplace(of_route, routes.size());
    if (is_new) routes.emplace_back(std::move(of_route), 0);
    ++routes[place->second].second;
  }
  absl::StrAppend(&text, ": ", absl::StrJoin(routes, " | ", [](std::string* out, const auto& alike) {
    if (alike.second > 1) absl::StrAppend(out, alike.second, " x ");
    absl::StrAppend(out, alike.first);
  }));
  return text;
}

}  // namespace medley
