#include "runtime/ir/collective/hierarchical_schedule.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "runtime/ir/collective/ring_messages.h"

namespace medley {
namespace {

// Members that together hold the sum over them, each some elements.
struct Part {
  struct Holding {
    ElementRange range;
    int member = 0;
  };
  std::vector<Holding> holdings;  // ascending, without gaps
  double weight = 0;              // sum of the members' shares
};

// A ring over the members that hold the same elements in the parts of a group.
struct Ring {
  int phase = 0;  // of the reduce-scatter, counted outwards
  std::vector<int> members;
  std::vector<ElementRange> slices;
};

std::vector<ElementRange> CutsOf(absl::Span<const Part> parts) {
  std::vector<int64_t> points;
  for (const Part& part : parts) {
    for (const Part::Holding& holding : part.holdings) {
      points.push_back(holding.range.begin);
      points.push_back(holding.range.end);
    }
  }
  std::sort(points.begin(), points.end());
  std::vector<ElementRange> cuts;
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    if (points[i] < points[i + 1]) cuts.push_back({points[i], points[i + 1]});
  }
  return cuts;
}

int HolderOf(const Part& part, int64_t element) {
  for (const Part::Holding& holding : part.holdings) {
    if (element < holding.range.end) return holding.member;
  }
  return part.holdings.back().member;
}

// One part of all in `parts`; the rings that make it one are added.
Part Join(absl::Span<const Part> parts, int phase, std::vector<Ring>& rings) {
  if (parts.size() == 1) return parts[0];
  Part joined;
  std::vector<double> weights;
  for (const Part& part : parts) weights.push_back(part.weight), joined.weight += part.weight;
  for (const ElementRange cut : CutsOf(parts)) {
    Ring ring{phase, {}, SlicesOf(cut.size(), static_cast<int>(parts.size()), weights)};
    for (size_t i = 0; i < parts.size(); ++i) {
      ring.slices[i].begin += cut.begin;
      ring.slices[i].end += cut.begin;
      ring.members.push_back(HolderOf(parts[i], cut.begin));
      if (ring.slices[i].size() > 0) joined.holdings.push_back({ring.slices[i], ring.members[i]});
    }
    rings.push_back(std::move(ring));
  }
  return joined;
}

std::vector<Ring> RingsOver(ElementRange range, int members, const GroupShape& shape) {
  std::vector<Ring> rings;
  std::vector<Part> parts;
  for (const int member : OrderOf(shape, members)) {
    parts.push_back({{{range, member}}, shape.shares.empty() ? 1 : shape.shares[member]});
  }
  int phase = 0;
  for (const std::vector<int>& sizes : shape.levels) {
    std::vector<Part> joined;
    size_t first = 0;
    for (const int size : sizes) {
      joined.push_back(Join(absl::MakeSpan(parts).subspan(first, size), phase, rings));
      first += size;
    }
    parts = std::move(joined);
    ++phase;
  }
  Join(parts, phase, rings);
  return rings;
}

}  // namespace

CollectiveSchedule HierarchicalSchedule(int members, int64_t elements, const GroupShape& shape,
                                        std::optional<int> only) {
  ScheduleBuilder builder(members, elements, only);
  const int pieces = static_cast<int>(
      std::clamp<int64_t>(elements / (kSmallestPieceElements * members), 1, kHierarchicalPieces));
  const int phases = 2 * (static_cast<int>(shape.levels.size()) + 1);
  const std::vector<ElementRange> ranges = SlicesOf(elements, pieces, {});
  for (int piece = 0; piece < pieces; ++piece) {
    if (ranges[piece].size() == 0) continue;
    const std::vector<Ring> rings = RingsOver(ranges[piece], members, shape);
    size_t rounds = 1;  // of the longest phase
    for (const Ring& ring : rings) rounds = std::max(rounds, ring.members.size() - 1);
    const auto first_round = [&](int phase) { return (piece + phase) * static_cast<int>(rounds); };
    for (const Ring& ring : rings) {
      AddRingReduceScatter(builder, ring.members, ring.slices, first_round(ring.phase));
      AddRingAllGather(builder, ring.members, ring.slices, first_round(phases - 1 - ring.phase));
    }
  }
  return std::move(builder).Finish();
}

}  // namespace medley
