#include "runtime/ir/program/optimizer_shard.h"

#include <algorithm>
#include <utility>

namespace medley {
namespace {

// Elements [first, end) of an arena.
struct ArenaRange {
  int64_t first = 0, end = 0;
};

// Calls visit(range) for each piece of the slice's elements `owned` that lies in one place, in the slice's
// order. `begin`, `end`: of its segments in the arena.
template <typename Visit>
void ForEachPiece(const GradientSlice& slice, int64_t begin, int64_t end, ElementRange owned,
                  const Visit& visit) {
  const ArenaRuns all{.count = end - begin};
  int64_t next = 0;  // element of the slice
  for (const ArenaRuns& runs : slice.runs.empty() ? absl::MakeConstSpan(&all, 1) : slice.runs) {
    for (int64_t r = 0; r < runs.repeats; ++r, next += runs.count) {
      const int64_t from = std::max(owned.begin, next), to = std::min(owned.end, next + runs.count);
      if (from >= to) continue;
      const int64_t first = begin + runs.first + r * runs.stride + from - next;
      visit(ArenaRange{first, first + to - from});
    }
  }
}

// Where segments from `segment` on begin in the arena.
int64_t OffsetOf(const ParameterLayout& layout, SegmentId segment) {
  const auto found = std::lower_bound(layout.segments.begin(), layout.segments.end(), segment);
  return found == layout.segments.end() ? layout.elements
                                        : layout.segment_offsets[found - layout.segments.begin()];
}

void SortByPlace(std::vector<ArenaRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const ArenaRange& a, const ArenaRange& b) { return a.first < b.first; });
}

// The ranges `owned`, which are apart, as they lie in m and v; offsets are from element `first` of the arena.
std::vector<OwnedRun> RunsOf(std::vector<ArenaRange> owned, int64_t first) {
  SortByPlace(owned);
  std::vector<OwnedRun> runs;
  int64_t place = 0;
  for (const ArenaRange& range : owned) {
    const int64_t offset = range.first - first, elements = range.end - range.first;
    const bool goes_on = !runs.empty() && runs.back().offset + runs.back().elements == offset;
    if (!goes_on) runs.push_back({offset, 0, place});
    runs.back().elements += elements;
    place += elements;
  }
  return runs;
}

// What of `all` is in none of `ranges`, which lie in it; ascending.
std::vector<ArenaRange> BetweenRanges(std::vector<ArenaRange> ranges, ArenaRange all) {
  SortByPlace(ranges);
  ranges.push_back({all.end, all.end});
  std::vector<ArenaRange> between;
  for (const ArenaRange& range : ranges) {
    if (range.first > all.first) between.push_back({all.first, range.first});
    all.first = std::max(all.first, range.end);
  }
  return between;
}

class Sharding {
 public:
  Sharding(const Plan& plan, Rank rank, const ModelConfig& config)
      : layout_(LayoutOf(LocalModel(config, ShareOf(plan, rank, config)),
                         plan.units[PlaceOf(plan, rank).unit].chunks)),
        counted_(NormRunsOf(
            layout_, CountedBy(plan.units[PlaceOf(plan, rank).unit], config, PlaceOf(plan, rank).member))) {
    for (const GradientSlice& slice : SlicesOf(plan, rank, config)) AddSlice(slice, OwnedRange(slice, rank));
    AddUnshared();
  }

  OptimizerShard Run() {
    std::sort(norms_.begin(), norms_.end(),
              [](const NormRun& a, const NormRun& b) { return a.offset < b.offset; });
    OptimizerShard shard{.owned = RunsOf(owned_, 0)};
    for (const NormRun& run : norms_) {
      const bool goes_on = !shard.norms.empty() && shard.norms.back().segment == run.segment &&
                           shard.norms.back().offset + shard.norms.back().elements == run.offset;
      if (goes_on) {
        shard.norms.back().elements += run.elements;
      } else {
        shard.norms.push_back(run);
      }
    }
    return shard;
  }

 private:
  void AddSlice(const GradientSlice& slice, ElementRange owned) {
    const int64_t begin = OffsetOf(layout_, slice.first_segment), end = OffsetOf(layout_, slice.end_segment);
    ForEachPiece(slice, begin, end, {0, slice.elements}, [&](ArenaRange range) { shared_.push_back(range); });
    // A part of several cuts has one owner of each element, whoever of a unit has copies of it.
    const bool is_part = !slice.runs.empty();
    ForEachPiece(slice, begin, end, owned, [&](ArenaRange range) {
      owned_.push_back(range);
      Count(is_part ? all_ : counted_, range);
    });
  }

  // What is in no slice.
  void AddUnshared() {
    for (const ArenaRange& range : BetweenRanges(std::move(shared_), {0, layout_.elements})) {
      owned_.push_back(range);
      Count(counted_, range);
    }
  }

  // What `runs`, which ascend, have in `range` counts.
  void Count(const std::vector<NormRun>& runs, ArenaRange range) {
    auto run = std::partition_point(runs.begin(), runs.end(), [&](const NormRun& before) {
      return before.offset + before.elements <= range.first;
    });
    for (; run != runs.end() && run->offset < range.end; ++run) {
      const int64_t first = std::max(range.first, run->offset),
                    end = std::min(range.end, run->offset + run->elements);
      norms_.push_back({run->segment, first, end - first});
    }
  }

  const ParameterLayout layout_;
  const std::vector<NormRun> all_ = NormRunsOf(layout_);
  const std::vector<NormRun> counted_;  // of what the ranks of the unit hold together
  std::vector<ArenaRange> shared_, owned_;
  std::vector<NormRun> norms_;
};

}  // namespace

OptimizerShard OptimizerShardOf(const Plan& plan, Rank rank, const ModelConfig& config) {
  if (plan.shards_optimizer) return Sharding(plan, rank, config).Run();
  const RankPlace place = PlaceOf(plan, rank);
  const ParameterLayout layout =
      LayoutOf(LocalModel(config, ShareOf(plan, rank, config)), plan.units[place.unit].chunks);
  OptimizerShard shard = WholeOptimizer(layout);
  shard.norms = NormRunsOf(layout, CountedBy(plan.units[place.unit], config, place.member));
  const std::vector<SegmentId> answered = OwnedSegments(plan, rank, config);
  std::erase_if(shard.norms, [&](const NormRun& run) {
    return !std::binary_search(answered.begin(), answered.end(), run.segment);
  });
  return shard;
}

OptimizerShard WholeOptimizer(const ParameterLayout& layout) {
  OptimizerShard shard{.norms = NormRunsOf(layout)};
  if (layout.elements > 0) shard.owned.push_back({.elements = layout.elements});
  return shard;
}

std::vector<OwnedRun> OwnedOfSegment(const ParameterLayout& layout, absl::Span<const GradientSlice> slices,
                                     Rank rank, SegmentId segment) {
  const int64_t first = OffsetOf(layout, segment), end = OffsetOf(layout, segment + 1);
  std::vector<ArenaRange> owned, shared;
  for (const GradientSlice& slice : slices) {
    if (!slice.Has(segment)) continue;
    const auto add = [&](ElementRange elements, std::vector<ArenaRange>& ranges) {
      ForEachPiece(slice, OffsetOf(layout, slice.first_segment), OffsetOf(layout, slice.end_segment),
                   elements, [&](ArenaRange range) {
                     range = {std::max(range.first, first), std::min(range.end, end)};
                     if (range.first < range.end) ranges.push_back(range);
                   });
    };
    add(OwnedRange(slice, rank), owned);
    add({0, slice.elements}, shared);
  }
  for (const ArenaRange& range : BetweenRanges(std::move(shared), {first, end})) owned.push_back(range);
  return RunsOf(std::move(owned), first);
}

std::vector<OwnedRun> OwnedWithin(absl::Span<const OwnedRun> owned, int64_t first, int64_t end) {
  std::vector<OwnedRun> within;
  auto run = std::partition_point(owned.begin(), owned.end(), [&](const OwnedRun& before) {
    return before.offset + before.elements <= first;
  });
  for (; run != owned.end() && run->offset < end; ++run) {
    const int64_t from = std::max(first, run->offset), to = std::min(end, run->offset + run->elements);
    if (from < to) within.push_back({from, to - from, run->place + from - run->offset});
  }
  return within;
}

void ForEachOwned(absl::Span<const HeldRun> held, int64_t first, absl::Span<const OwnedRun> owned,
                  absl::FunctionRef<void(int64_t whole, int64_t place, int64_t count)> visit) {
  for (const HeldRun& run : held) {
    const int64_t offset = first + run.held;
    for (const OwnedRun& piece : OwnedWithin(owned, offset, offset + run.count))
      visit(run.whole + piece.offset - offset, piece.place, piece.elements);
  }
}

}  // namespace medley
