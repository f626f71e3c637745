#include "runtime/ir/program/gradient_slices.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "runtime/ir/program/holder_runs.h"

namespace medley {
namespace {

// A bucket of gradients is at least as large as the smaller of 16 MiB and an eighth of the model, but for the
// last of a run of segments.
constexpr int64_t kLargeBucketElements = int64_t{4} << 20;
constexpr int64_t kFewestBuckets = 8;

// Whether segments [first, end) have no parameters.
bool AreEmpty(const ModelConfig& config, SegmentId first, SegmentId end) {
  for (SegmentId segment = first; segment < end; ++segment) {
    if (SegmentElements(config, segment) > 0) return false;
  }
  return true;
}

// Ranks that hold the same part of a segment as the `member`-th of a unit of `degree` equal ones.
std::vector<Rank> RanksOf(const Plan& plan, const std::vector<UnitId>& units, int member) {
  std::vector<Rank> ranks = FirstRanksOf(plan, units);
  for (Rank& rank : ranks) rank = rank + member;
  return ranks;
}

// So that ranks of one place in their units hold the same, which no others of these units have.
bool CutAlike(const Plan& plan, const std::vector<UnitId>& units, const ModelConfig& config) {
  const Unit& first = plan.units[units.front()];
  if (ShareKeys(first, config)) return false;
  return std::all_of(units.begin(), units.end(), [&](UnitId u) {
    const Unit& unit = plan.units[u];
    const bool named_alike = unit.devices.size() == first.devices.size() && unit.shares == first.shares;
    return named_alike || SharesOf(unit, config) == SharesOf(first, config);
  });
}

// Segments' places in the order in which all ranks of the plan sum them; empty: it is from the last to the first, as it
// is where units have the same blocks or none in common. Layers that live elsewhere are summed as backward comes to
// them.
std::vector<int> PlacesOfSums(const Plan& plan, const ModelConfig& config) {
  std::map<decltype(Unit::chunks), int> units_with;  // those whose ranks sum among themselves count as more
  std::set<BlockRange> ranges;
  for (const Unit& unit : plan.units) {
    if (unit.has_windows() || unit.lives_on_peers()) return {};
    ranges.insert(unit.chunks.begin(), unit.chunks.end());
    units_with[unit.chunks] += ShareKeys(unit, config) ? 2 : 1;
  }
  BlockId end = 0;
  bool apart = true;
  for (const BlockRange& range : ranges) {
    apart = apart && range.first >= end;
    end = range.end;
  }
  if (apart) return {};
  const auto holders_of = [&](SegmentId segment) {
    std::vector<int> holders;
    int number = 0;
    for (const auto& [chunks, units] : units_with) {
      if (HoldsSegment(config, chunks, segment)) holders.push_back(number);
      ++number;
    }
    return holders;
  };
  std::vector<int> count;
  for (const auto& [chunks, units] : units_with) count.push_back(units);
  const auto runs = HolderRunsOf(FilledSegments(config), holders_of);
  const std::vector<int> order = OrderOfSums(config, runs, [&](const auto& run) {
    return run.holders.size() > 1 || count[run.holders.front()] > 1;
  });
  std::vector<int> places(SegmentCount(config), 0);
  for (int place = 0; place < static_cast<int>(order.size()); ++place) {
    const auto& run = runs[order[place]];
    std::fill(places.begin() + run.first_segment, places.begin() + run.end_segment, place);
  }
  return places;
}

// The weights of the units of `ranks`, which ascend. What ranks of one unit alone sum they carry whatever its weight.
std::vector<double> SharesOfOptimizer(const Plan& plan, const std::vector<Rank>& ranks) {
  std::vector<double> shares;
  UnitId unit = 0;
  int end = static_cast<int>(plan.units[unit].devices.size());  // of the unit's ranks
  for (const Rank rank : ranks) {
    while (rank >= end) end += static_cast<int>(plan.units[++unit].devices.size());
    shares.push_back(plan.units[unit].optimizer_weight);
  }
  if (std::all_of(shares.begin(), shares.end(), [](double share) { return share == 0; }))
    std::fill(shares.begin(), shares.end(), 1);
  return shares;
}

// Buckets of a segment each, from the last to the first. Of these ranks of one unit sum keys and values alone, which lie
// side by side in a layer: where the hosts sum they take no more than that from the device.
std::vector<std::pair<SegmentId, SegmentId>> EachSegment(const ModelConfig& config, SegmentId first_segment,
                                                         SegmentId end_segment) {
  std::vector<std::pair<SegmentId, SegmentId>> buckets;
  for (int segment = end_segment - 1; segment >= first_segment; --segment) {
    if (IsLayer(config, segment)) buckets.push_back({segment, segment + 1});
  }
  return buckets;
}

}  // namespace

ElementRange OwnedRange(const GradientSlice& slice, Rank rank) {
  if (slice.shares.empty()) return {0, slice.elements};
  const auto holder = std::find(slice.holders.begin(), slice.holders.end(), rank);
  const int members = static_cast<int>(slice.holders.size());
  return OwnedSlices(slice.elements, members, slice.shares)[holder - slice.holders.begin()];
}

bool LivesElsewhere(const ModelConfig& config, SegmentId segment, const Unit& holder) {
  return holder.has_windows() && IsLayer(config, segment);
}

std::vector<std::pair<SegmentId, SegmentId>> CutIntoBuckets(const ModelConfig& config,
                                                            SegmentId first_segment, SegmentId end_segment) {
  const int64_t enough = std::min(kLargeBucketElements, ModelElements(config) / kFewestBuckets);
  std::vector<std::pair<SegmentId, SegmentId>> buckets;
  int64_t elements = 0;
  for (int segment = end_segment - 1, end = end_segment; segment >= first_segment; --segment) {
    elements += SegmentElements(config, segment);
    if (elements < enough && segment > first_segment) continue;
    if (elements > 0) buckets.push_back({segment, end});
    end = segment;
    elements = 0;
  }
  return buckets;
}

BlockId CompletedBy(const ModelConfig& config, absl::Span<const BlockRange> chunks, SegmentId first_segment) {
  if (first_segment != kTiedSegment) return BlockOfSegment(first_segment);
  return Holds(chunks, config.embedding_block()) ? config.embedding_block() : config.head_block();
}

std::vector<GradientSlice> SlicesOf(const Plan& plan, Rank rank, const ModelConfig& config) {
  const RankPlace place = PlaceOf(plan, rank);
  const Unit& unit = plan.units[place.unit];
  const bool shares_keys = ShareKeys(unit, config);
  const ModelConfig local = LocalModel(config, ShareOf(plan, rank, config));
  // Runs of segments with the same holders; empty ones are passed over.
  struct Run {
    SegmentId first_segment, end_segment;
    std::vector<UnitId> units;
    bool sums_on_hosts, on_peers;
  };
  std::vector<Run> runs;
  for (const SegmentId segment : SegmentsOf(config, unit.chunks)) {
    if (SegmentElements(config, segment) == 0) continue;
    std::vector<UnitId> units = HoldersOf(plan, config, segment);
    const bool sums_on_hosts = std::any_of(units.begin(), units.end(), [&](UnitId holder) {
      return LivesElsewhere(config, segment, plan.units[holder]);
    });
    const bool on_peers = IsLayer(config, segment) && unit.lives_on_peers();
    if (!runs.empty() && runs.back().units == units && runs.back().sums_on_hosts == sums_on_hosts &&
        !on_peers && AreEmpty(config, runs.back().end_segment, segment)) {
      runs.back().end_segment = segment + 1;
    } else {
      runs.push_back({segment, segment + 1, std::move(units), sums_on_hosts, on_peers});
    }
  }
  std::vector<GradientSlice> slices;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    const bool alone = run->units.size() < 2;
    if (alone && !shares_keys) continue;
    for (const auto& [first, end] : alone ? EachSegment(config, run->first_segment, run->end_segment)
                                          : CutIntoBuckets(config, run->first_segment, run->end_segment)) {
      GradientSlice slice{.first_segment = first, .end_segment = end};
      slice.completed_by = CompletedBy(config, unit.chunks, first);
      slice.sums_on_hosts = run->sums_on_hosts;
      slice.in_host_memory = run->sums_on_hosts && unit.lives_on_host();
      slice.on_peers = run->on_peers;
      if (CutAlike(plan, run->units, config)) {
        for (SegmentId segment = first; segment < end; ++segment)
          slice.elements += SegmentElements(local, segment);
        slice.holders = RanksOf(plan, run->units, place.member);
        slices.push_back(std::move(slice));
        continue;
      }
      for (GradientPart& part : PartsOf(plan, config, run->units, rank, first, end)) {
        slice.turn = part.holders == slice.holders ? slice.turn + 1 : 0;
        slice.elements = part.elements;
        slice.holders = std::move(part.holders);
        slice.runs = std::move(part.runs);
        slice.counts = part.counts;
        slices.push_back(slice);
      }
    }
  }
  if (const std::vector<int> places = PlacesOfSums(plan, config); !places.empty()) {
    std::stable_sort(slices.begin(), slices.end(), [&](const GradientSlice& a, const GradientSlice& b) {
      return places[a.first_segment] < places[b.first_segment];
    });
  }
  if (plan.shards_optimizer) {
    for (GradientSlice& slice : slices) slice.shares = SharesOfOptimizer(plan, slice.holders);
  }
  return slices;
}

bool HoldAlike(const Unit& one, const Unit& other) {
  return one.chunks == other.chunks && one.devices.size() == other.devices.size() &&
         one.shares == other.shares && one.lives_on_host() == other.lives_on_host() &&
         one.lives_on_peers() == other.lives_on_peers();
}

std::pair<int, int> SlicesOfLayer(absl::Span<const GradientSlice> slices, BlockId layer) {
  const auto is_of_layer = [&](const GradientSlice& slice) {
    return slice.on_peers && slice.first_segment == SegmentOfBlock(layer);
  };
  const auto first = std::find_if(slices.begin(), slices.end(), is_of_layer),
             end = std::find_if_not(first, slices.end(), is_of_layer);
  return {static_cast<int>(first - slices.begin()), static_cast<int>(end - slices.begin())};
}

int ScalarCount(const ModelConfig& config) { return SegmentCount(config) + 2; }

std::vector<SegmentId> OwnedSegments(const Plan& plan, Rank rank, const ModelConfig& config) {
  const UnitId unit = PlaceOf(plan, rank).unit;
  std::vector<SegmentId> owned = SegmentsOf(config, plan.units[unit].chunks);
  std::erase_if(owned, [&](SegmentId segment) { return HoldersOf(plan, config, segment).front() != unit; });
  return owned;
}

CountedCopies CountedBy(const Unit& unit, const ModelConfig& config, int member) {
  return {.uncut = member == 0, .keys = !HasKeysOfAnother(config, SharesOf(unit, config), member)};
}

std::vector<NormRun> NormRunsOf(const ParameterLayout& layout, CountedCopies copies) {
  std::vector<NormRun> runs;
  for (const PlacedParameter& placed : layout.parameters) {
    if (!copies.uncut && placed.spec.cut == TensorCut::kNone) continue;
    if (!copies.keys && placed.spec.cut == TensorCut::kKeyValueHeads) continue;
    const bool goes_on = !runs.empty() && runs.back().segment == placed.segment &&
                         runs.back().offset + runs.back().elements == placed.offset;
    if (!goes_on) runs.push_back({placed.segment, placed.offset, 0});
    runs.back().elements += placed.spec.elements;
  }
  return runs;
}

std::vector<Rank> SegmentWriters(const Plan& plan, const ModelConfig& config) {
  std::vector<SegmentId> segments(SegmentCount(config));
  std::iota(segments.begin(), segments.end(), 0);
  std::stable_sort(segments.begin(), segments.end(), [&](SegmentId a, SegmentId b) {
    return SegmentElements(config, a) > SegmentElements(config, b);
  });
  std::vector<int64_t> elements(RankCount(plan));  // to write, by rank
  std::vector<Rank> writers(segments.size());
  for (const SegmentId segment : segments) {
    Rank writer = -1;
    const std::vector<UnitId> units = HoldersOf(plan, config, segment);
    const std::vector<Rank> first_ranks = FirstRanksOf(plan, units);
    for (size_t u = 0; u < units.size(); ++u) {
      for (int member = 0; member < static_cast<int>(plan.units[units[u]].devices.size()); ++member) {
        const Rank rank = first_ranks[u] + member;
        if (writer < 0 || elements[rank] < elements[writer]) writer = rank;
      }
    }
    elements[writer] += SegmentElements(config, segment);
    writers[segment] = writer;
  }
  return writers;
}

std::vector<SegmentId> SavedSegments(const Plan& plan, Rank rank, const ModelConfig& config) {
  const std::vector<Rank> writers = SegmentWriters(plan, config);
  std::vector<SegmentId> saved;
  for (SegmentId segment = 0; segment < SegmentCount(config); ++segment) {
    if (writers[segment] == rank) saved.push_back(segment);
  }
  return saved;
}

}  // namespace medley
