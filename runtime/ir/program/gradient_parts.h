#pragma once
#include <cstdint>
#include <vector>

#include "runtime/ir/plan/plan.h"

// Gradients that units share which cut their tensors differently: parts of the common refinement of their
// cuts, each held by the same ranks.
namespace medley {

// Elements of an arena: `count` from `first`, and as many every `stride` elements, `repeats` times in all.
struct ArenaRuns {
  int64_t first = 0, count = 0, stride = 0, repeats = 1;
  friend bool operator==(const ArenaRuns&, const ArenaRuns&) = default;
};

// Elements that the same ranks hold: one of each unit, or those of it that share key-value heads; or, of tensors that
// are not cut, all ranks.
struct GradientPart {
  std::vector<Rank> holders;  // ascending; at least two
  std::vector<ArenaRuns>
      runs;  // from the start of the segments in the rank's arena, in one order for all holders
  int64_t elements = 0;
  // Whether the rank's values are to be added. Ranks of a unit have the same gradients of what is not cut: one
  // of them counts.
  bool counts = true;
};

// The parts of segments [first_segment, end_segment), which `units` hold, that `rank` of one of them takes
// part in, in an order that is one for all ranks. Together they have each element of its arena there once that others
// add to as well: what ranks of one unit alone hold uncut is alike on all of them.
std::vector<GradientPart> PartsOf(const Plan& plan, const ModelConfig& config,
                                  const std::vector<UnitId>& units, Rank rank, SegmentId first_segment,
                                  SegmentId end_segment);

}  // namespace medley
