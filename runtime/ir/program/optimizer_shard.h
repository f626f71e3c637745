#pragma once
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/gradient_slices.h"

// Which of its parameters a rank updates, and so has the optimizer's state of.
namespace medley {

// Consecutive elements of a rank's arena whose optimizer state it has.
struct OwnedRun {
  int64_t offset = 0;  // elements from the start of the arena
  int64_t elements = 0;
  int64_t place = 0;  // of the first one in m, and in v, where the runs lie one after another
  friend bool operator==(const OwnedRun&, const OwnedRun&) = default;
};

// What a rank does at the end of a step for itself and for the others that hold the same.
struct OptimizerShard {
  std::vector<OwnedRun> owned;  // ascending; updated
  // Ascending; counted in the norm of the gradients. The ranks of a plan together count each element of the
  // model once.
  std::vector<NormRun> norms;

  int64_t elements() const {  // of m, and of v
    return owned.empty() ? 0 : owned.back().place + owned.back().elements;
  }
};

// That of `rank` of a valid plan. Where the plan does not shard the optimizer, all that it holds, and the
// norms of OwnedSegments. Otherwise its range of each slice (OwnedRange), and what no other unit holds. What
// the ranks of a unit hold alike is updated by each of them there, so that their copies stay alike; of its
// elements one counts in the norm.
OptimizerShard OptimizerShardOf(const Plan& plan, Rank rank, const ModelConfig& config);

// What `rank` owns of `segment` in a plan that shards the optimizer, by itself: who asks for a segment of
// thousands of ranks has no time for all of what each owns. Offsets are from the segment's first element in
// the rank's arena, which is laid out as `layout`, and places from what it owns of the segment. `slices`:
// the rank's (SlicesOf), or those of a rank that holds alike (HoldAlike).
std::vector<OwnedRun> OwnedOfSegment(const ParameterLayout& layout, absl::Span<const GradientSlice> slices,
                                     Rank rank, SegmentId segment);

// That of who shares `layout` with nobody.
OptimizerShard WholeOptimizer(const ParameterLayout& layout);

// The parts of `owned` that are in [first, end) of the arena. They lie one after another in m and v.
std::vector<OwnedRun> OwnedWithin(absl::Span<const OwnedRun> owned, int64_t first, int64_t end);

// Calls visit(element of the whole tensor, place, count) for all that `owned` has of a tensor of which a rank
// holds `held` (HeldRuns), from element `first` of its arena on; in the order of the places.
void ForEachOwned(absl::Span<const HeldRun> held, int64_t first, absl::Span<const OwnedRun> owned,
                  absl::FunctionRef<void(int64_t whole, int64_t place, int64_t count)> visit);

}  // namespace medley
