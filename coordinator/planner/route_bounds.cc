#include "coordinator/planner/route_bounds.h"

#include <algorithm>
#include <limits>

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/program/schedule.h"

namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// So many bounds of routes are remembered, and of rests from each block on: each half a GB.
constexpr size_t kMostBounds = size_t{1} << 24, kMostRests = size_t{1} << 25;

}  // namespace

int RouteBounds::ListOf(const std::vector<int>& classes) {
  int list = 0;
  for (auto c = classes.rbegin(); c != classes.rend(); ++c) {
    if (lists_[list].extensions.empty()) lists_[list].extensions.assign(tables_.classes().size(), -1);
    if (lists_[list].extensions[*c] < 0) {
      lists_[list].extensions[*c] = static_cast<int>(lists_.size());
      lists_.push_back(
          {std::vector<int>(classes.end() - (c - classes.rbegin()) - 1, classes.end()), list, {}});
    }
    list = lists_[list].extensions[*c];
  }
  return list;
}

SearchTables::OwnOptimizer RouteBounds::OwnOptimizerOf(const Work& work, int list, bool first) const {
  using Own = SearchTables::OwnOptimizer;
  if (!work.shards_optimizer) return Own::kAll;
  if (work.replicated) return Own::kNone;
  // The ends of a pipeline both hold the tied embedding.
  const bool last = lists_[list].classes.size() == 1;
  return first != last ? Own::kAllButTied : Own::kAll;
}

const SearchTables::StageNeeds& RouteBounds::Needs(const Work& work, int list, std::optional<Dtype> before) {
  const std::vector<int>& classes = lists_[list].classes;
  const Dtype own = StoredBy(list);
  Dtype narrowest = NarrowerOf(own, before.value_or(own));
  if (classes.size() > 1) narrowest = NarrowerOf(narrowest, StoredBy(lists_[list].rest));
  return tables_.NeedsOf({.device_class = classes.front(),
                          .size = work.size,
                          .schedule = work.schedule,
                          .first = !before.has_value(),
                          .from_end = static_cast<int>(classes.size()),
                          .micro_batches = work.micro_batches,
                          .activations = own,
                          .narrowest = narrowest,
                          .before = NarrowerOf(own, before.value_or(own)),
                          .optimizer = OwnOptimizerOf(work, list, !before.has_value())});
}

std::optional<UnitSaving> RouteBounds::LeastSaving(const Work& work, const SearchTables::StageNeeds& needs,
                                                   int list, BlockRange blocks) {
  const int at = tables_.At(blocks), device_class = lists_[list].classes.front();
  std::optional<UnitSaving> least;
  if (needs.bytes[at] <= tables_.AvailableBytes(device_class)[at]) {
    least = needs.saving[at];
  } else {
    memory_binds_ = true;
  }
  if (!work.homes_layers) return least;
  const auto seconds = [&](const UnitSaving& saving) {
    return tables_.RecomputeSeconds(device_class, work.size, blocks, saving);
  };
  for (const UnitSaving& with_windows : needs.with_windows[at]) {
    if (!least || seconds(with_windows) < seconds(*least))
      least = {.recompute = with_windows.recompute, .recomputed_layers = with_windows.recomputed_layers};
  }
  return least;
}

template <typename Visit>
void RouteBounds::ForEachStage(const Work& work, const std::vector<BlockId>& ends, const Visit& visit) {
  BlockId first_block = 0;
  int list = work.list;
  std::optional<Dtype> before;
  for (size_t s = 0; s < ends.size(); ++s) {
    visit(s, list, Needs(work, list, before), BlockRange{first_block, ends[s]});
    before = StoredBy(list);
    first_block = ends[s];
    list = lists_[list].rest;
  }
}

std::vector<std::vector<UnitSaving>> RouteBounds::SavingsOf(const Work& work,
                                                            const std::vector<BlockId>& ends) {
  std::vector<std::vector<UnitSaving>> of_stages;
  ForEachStage(work, ends, [&](size_t, int list, const SearchTables::StageNeeds& needs, BlockRange blocks) {
    std::vector<UnitSaving>& savings = of_stages.emplace_back();
    const int at = tables_.At(blocks);
    const int64_t available = tables_.AvailableBytes(lists_[list].classes.front())[at];
    if (!work.shards_optimizer || !tables_.saving().recomputes) {
      if (needs.bytes[at] <= available) savings.push_back(needs.saving[at]);
    } else {
      const bool has_layer = HaveLayer(tables_.problem().shape.model, {blocks});
      for (const Recompute recompute : kRecomputesByTime) {
        const int r = static_cast<int>(recompute);
        if ((recompute == Recompute::kNone || has_layer) && needs.bytes_by_recompute[r][at] <= available)
          savings.push_back({.recompute = recompute, .recomputed_layers = needs.fewest_layers[r][at]});
      }
    }
    if (!work.homes_layers) return;
    savings.insert(savings.end(), needs.with_windows[at].begin(), needs.with_windows[at].end());
  });
  return of_stages;
}

bool RouteBounds::FitsAsItIs(const Work& work, const std::vector<BlockId>& ends) {
  Work whole = work;
  whole.shards_optimizer = whole.homes_layers = false;
  bool fits = true;
  ForEachStage(whole, ends, [&](size_t, int list, const SearchTables::StageNeeds& needs, BlockRange blocks) {
    const int at = tables_.At(blocks);
    const int64_t available = tables_.AvailableBytes(lists_[list].classes.front())[at];
    fits = fits && needs.saving[at].recompute == Recompute::kNone && needs.bytes[at] <= available;
  });
  return fits;
}

RouteBounds::StageSeconds RouteBounds::Stage(const Work& work, int list, BlockRange blocks,
                                             const UnitSaving& saving, double rest_round_trip,
                                             bool first) const {
  ++looked_at_;
  const std::vector<int>& classes = lists_[list].classes;
  const int device_class = classes.front();
  const DeviceCost& cost = tables_.Cost(device_class);
  const double forward = tables_.ForwardSeconds(device_class, work.size, blocks);
  const double again = tables_.RecomputeSeconds(device_class, work.size, blocks, saving);
  const double backward = tables_.BackwardSeconds(device_class, work.size, blocks) + again;
  // The layer whose gradient comes first is made again while that is on its way, unless it begins here. What takes least
  // altogether may be more layers of which each takes less, so that other ways have more of it ahead: as much as any has.
  const double layer = tables_.RecomputeSeconds(device_class, work.size, {BlockOfLayer(0), BlockOfLayer(1)},
                                                {.recompute = kRecomputesByTime[kRecomputes - 1]});
  const double ahead = classes.size() > 1 ? std::min(again, layer) : 0;
  const auto own = static_cast<double>(tables_.OwnParameters(blocks, OwnOptimizerOf(work, list, first)));
  const double message = classes.size() > 1 ? tables_.MessageSeconds(device_class, classes[1], work.size) : 0;
  StageSeconds stage;
  stage.passage = forward + backward - ahead + 2 * message;
  stage.round_trip = stage.passage + rest_round_trip;
  stage.passes_and_update = LeastPassesSeconds(work.schedule, {.micro_batches = work.micro_batches,
                                                               .from_end = static_cast<int>(classes.size()),
                                                               .forward_seconds = forward,
                                                               .backward_seconds = backward,
                                                               .message_seconds = message,
                                                               .round_trip_seconds = stage.round_trip}) +
                            own * cost.update_seconds_per_parameter;
  stage.after_passes = 0;
  if (first && work.replicated) {
    // With layers in host memory all micro-batches may pass one before the next: no more than the first block's
    // sum is then known to follow all backwards.
    const bool one_pass = work.homes_layers && work.schedule == Schedule::kGPipe;
    const BlockRange summed_last = one_pass ? BlockRange{blocks.first, blocks.first + 1} : blocks;
    stage.after_passes = work.shards_optimizer
                             ? tables_.ScatteredAndGatheredSeconds(device_class, work.size, summed_last)
                             : tables_.ReducedAfterSeconds(device_class, work.size, summed_last);
  } else if (first) {
    stage.after_passes = own * cost.norm_seconds_per_parameter;
  }
  return stage;
}

const std::vector<RouteBounds::Rest>& RouteBounds::RestOf(const Work& work, int list, Dtype before) {
  int64_t key = list;
  key = key * static_cast<int64_t>(tables_.problem().micro_batch_sizes.size()) + work.size;
  key = key * kSchedules + static_cast<int64_t>(work.schedule);
  key = key * (int64_t{tables_.problem().shape.global_batch_sequences} + 1) + work.micro_batches;
  key = key * kDtypes + static_cast<int64_t>(before);
  // Whether other routes share what its units carry matters where they do.
  key = key * 3 + (!work.shards_optimizer ? 0 : work.replicated ? 2 : 1);
  key = key * 2 + (work.homes_layers ? 1 : 0);
  const auto known = rests_.find(key);
  if (known != rests_.end()) return known->second;

  const int blocks = tables_.blocks();
  std::vector<Rest> rests(blocks + 1, Rest{kInfinity, kInfinity});
  if (list == 0) {
    rests[blocks] = {0, 0};
  } else {
    const std::vector<Rest>& after = RestOf(work, lists_[list].rest, StoredBy(list));
    const SearchTables::StageNeeds& needs = Needs(work, list, before);
    for (BlockId first = 0; first < blocks; ++first) {
      for (BlockId end = first + 1; end <= blocks; ++end) {
        if (after[end].round_trip == kInfinity) continue;
        const std::optional<UnitSaving> saving = LeastSaving(work, needs, list, {first, end});
        if (!saving) continue;
        const StageSeconds stage = Stage(work, list, {first, end}, *saving, after[end].round_trip, false);
        rests[first].passes_and_update =
            std::min(rests[first].passes_and_update,
                     std::max(stage.passes_and_update, stage.passage + after[end].passes_and_update));
        rests[first].round_trip = std::min(rests[first].round_trip, stage.round_trip);
      }
    }
  }
  return rests_.emplace(key, std::move(rests)).first->second;
}

double RouteBounds::Bound(const Work& work) {
  int64_t key = work.list;
  key = key * static_cast<int64_t>(tables_.problem().micro_batch_sizes.size()) + work.size;
  key = (key * kSchedules + static_cast<int64_t>(work.schedule)) * 2 + (work.replicated ? 1 : 0);
  key = (key * 2 + (work.shards_optimizer ? 1 : 0)) * 2 + (work.homes_layers ? 1 : 0);
  key = key * (int64_t{tables_.problem().shape.global_batch_sequences} + 1) + work.micro_batches;
  if (const auto known = bounds_.find(key); known != bounds_.end()) return known->second;
  // Where there are as many micro-batches as that, they are found anew.
  if (bounds_.size() >= kMostBounds) bounds_.clear();
  if (rests_.size() * static_cast<size_t>(tables_.blocks() + 1) >= kMostRests) rests_.clear();
  double bound = kInfinity;
  const std::vector<Rest>& after = RestOf(work, lists_[work.list].rest, StoredBy(work.list));
  const SearchTables::StageNeeds& needs = Needs(work, work.list, std::nullopt);
  for (BlockId end = 1; end <= tables_.blocks(); ++end) {
    if (after[end].round_trip == kInfinity) continue;
    const std::optional<UnitSaving> saving = LeastSaving(work, needs, work.list, {0, end});
    if (!saving) continue;
    const StageSeconds stage = Stage(work, work.list, {0, end}, *saving, after[end].round_trip, true);
    const double passes = std::max(stage.passes_and_update, stage.passage + after[end].passes_and_update);
    bound = std::min(bound, passes + stage.after_passes);
  }
  bounds_.emplace(key, bound);
  return bound;
}

std::vector<RouteBounds::Split> RouteBounds::Splits(const Work& work, double below, size_t limit) {
  std::vector<Split> splits;
  std::vector<BlockId> ends;
  ExtendSplit(work, work.list, std::nullopt, 0, 0, 0, 0, below, limit, ends, splits);
  std::sort(splits.begin(), splits.end(), [](const Split& a, const Split& b) {
    return a.bound_seconds != b.bound_seconds ? a.bound_seconds < b.bound_seconds : a.ends < b.ends;
  });
  return splits;
}

// `passage` is that of the stages before `list`, `bound` the greatest of their own bounds, `after` what
// follows passes.
void RouteBounds::ExtendSplit(const Work& work, int list, std::optional<Dtype> before, BlockId first_block,
                              double passage, double bound, double after, double below, size_t limit,
                              std::vector<BlockId>& ends, std::vector<Split>& splits) {
  if (list == 0) {
    const double own = BoundOfSplit(work, ends, LeastSavingsOf(work, ends));
    if (own < below) splits.push_back({ends, own});
    return;
  }
  const bool first = first_block == 0;
  const std::vector<Rest>& rest = RestOf(work, lists_[list].rest, StoredBy(list));
  const SearchTables::StageNeeds& needs = Needs(work, list, before);
  for (BlockId end = first_block + 1; end <= tables_.blocks() && splits.size() < limit; ++end) {
    if (rest[end].round_trip == kInfinity) continue;
    const std::optional<UnitSaving> saving = LeastSaving(work, needs, list, {first_block, end});
    if (!saving) continue;
    const StageSeconds stage = Stage(work, list, {first_block, end}, *saving, rest[end].round_trip, first);
    const double own = std::max(bound, passage + stage.passes_and_update);
    const double follows = first ? stage.after_passes : after;
    if (std::max(own, passage + stage.passage + rest[end].passes_and_update) + follows >= below) continue;
    ends.push_back(end);
    ExtendSplit(work, lists_[list].rest, StoredBy(list), end, passage + stage.passage, own, follows, below,
                limit, ends, splits);
    ends.pop_back();
  }
}

double RouteBounds::BoundOfSplit(const Work& work, const std::vector<BlockId>& ends) {
  BlockId first_block = 0;
  int list = work.list;
  std::optional<Dtype> before;
  for (const BlockId end : ends) {
    if (end <= first_block) return kInfinity;
    if (!LeastSaving(work, Needs(work, list, before), list, {first_block, end})) return kInfinity;
    before = StoredBy(list);
    first_block = end;
    list = lists_[list].rest;
  }
  return BoundOfSplit(work, ends, LeastSavingsOf(work, ends));
}

std::vector<std::array<int64_t, kRecomputes>> RouteBounds::RoomsOf(const Work& work,
                                                                   const std::vector<BlockId>& ends) {
  std::vector<std::array<int64_t, kRecomputes>> rooms;
  ForEachStage(work, ends, [&](size_t, int list, const SearchTables::StageNeeds& needs, BlockRange blocks) {
    const int at = tables_.At(blocks);
    const int64_t available = tables_.AvailableBytes(lists_[list].classes.front())[at];
    rooms.emplace_back();
    for (int r = 0; r < kRecomputes; ++r) rooms.back()[r] = available - needs.bytes_by_recompute[r][at];
  });
  return rooms;
}

std::vector<UnitSaving> RouteBounds::LeastSavingsOf(const Work& work, const std::vector<BlockId>& ends) {
  std::vector<UnitSaving> savings(ends.size());
  if (!tables_.saving().recomputes) return savings;
  ForEachStage(work, ends, [&](size_t s, int list, const SearchTables::StageNeeds& needs, BlockRange blocks) {
    savings[s] = LeastSaving(work, needs, list, blocks).value_or(needs.saving[tables_.At(blocks)]);
  });
  return savings;
}

double RouteBounds::BoundOfSplit(const Work& work, const std::vector<BlockId>& ends,
                                 const std::vector<UnitSaving>& savings) const {
  std::vector<int> lists;
  for (int list = work.list; list != 0; list = lists_[list].rest) lists.push_back(list);
  double passes = 0, round_trip = 0, after = 0;
  for (int s = static_cast<int>(ends.size()) - 1; s >= 0; --s) {
    const StageSeconds stage =
        Stage(work, lists[s], {s == 0 ? BlockId(0) : ends[s - 1], ends[s]}, savings[s], round_trip, s == 0);
    passes = std::max(stage.passes_and_update, stage.passage + passes);
    round_trip = stage.round_trip;
    after = stage.after_passes;
  }
  return passes + after;
}

}  // namespace medley
