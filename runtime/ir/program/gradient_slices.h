#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/ir/collective/collective_schedule.h"
#include "runtime/ir/model/family.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/gradient_parts.h"

// Who sums which gradients with whom, and who answers for and saves which segments: functions of a valid
// plan.
namespace medley {

// What one collective sums: a bucket, which is consecutive segments of the same units. Where these cut tensors
// differently a bucket is several slices, one for each part of the common refinement of their cuts
// (gradient_parts.h).
struct GradientSlice {
  SegmentId first_segment = 0;
  SegmentId end_segment = 0;
  int64_t elements = 0;
  std::vector<ArenaRuns>
      runs;                   // of a part, in the rank's arena from the first segment on; empty: all there is
  bool counts = true;         // of a part: the rank's values are added, otherwise it only gets the sum
  std::vector<Rank> holders;  // ascending; at least two
  // Where the plan shards the optimizer, parallel to the holders: how much of the slice each of them owns
  // (OwnedRange), relative. Empty: each has the state of all of it.
  std::vector<double> shares;
  // Where some holder's layers live elsewhere than on its device, layers have slices of their own, which all sum on
  // their hosts; whether this rank's live in host memory; and whether the slice is of one layer that lives with its
  // holders, which is gathered and scattered by itself.
  bool sums_on_hosts = false, in_host_memory = false, on_peers = false;
  int turn = 0;  // among slices of one bucket with the same holders: of what is cut and of what is not
  BlockId completed_by = 0;  // the unit's block whose weights' gradient is the last to add to it

  bool Has(SegmentId segment) const { return first_segment <= segment && segment < end_segment; }
};

// Of the slice's elements, in the order in which its runs have them, those whose optimizer state `rank`, a
// holder, has: consecutive, in proportion to the shares (OwnedSlices of runtime/ir/collective/collective_schedule.h). Each holder answers for its own where there are shares.
ElementRange OwnedRange(const GradientSlice& slice, Rank rank);

// The block whose backward is the last to add to segments that begin with `first_segment`, on a holder of
// `chunks`.
BlockId CompletedBy(const ModelConfig& config, absl::Span<const BlockRange> chunks, SegmentId first_segment);

// Whether `segment` is of a layer that lives elsewhere than on the devices of `holder`, so that all who hold it sum it on their hosts.
bool LivesElsewhere(const ModelConfig& config, SegmentId segment, const Unit& holder);

// Cuts consecutive segments [first, end) into buckets, from the last to the first. A bucket is summed as soon
// as the last backward has gone through it, while that goes on; it is large enough to make little of the
// latency.
std::vector<std::pair<SegmentId, SegmentId>> CutIntoBuckets(const ModelConfig& config,
                                                            SegmentId first_segment, SegmentId end_segment);

// Slices that `rank` reduces, in the order of OrderOfSums (sum_order.h): from the last segment to the first, the order
// in which backward ends, where replicas are cut alike.
std::vector<GradientSlice> SlicesOf(const Plan& plan, Rank rank, const ModelConfig& config);

// Whether ranks of the same place in two units of a plan have the same layout and the same slices.
bool HoldAlike(const Unit& one, const Unit& other);

// Doubles that kReduceScalars sums over all ranks: a squared norm of each segment, the loss, the wishes to
// finish early.
int ScalarCount(const ModelConfig& config);

// Segments whose squared norm `rank` answers for, with its unit's other ranks (NormRunsOf), where all holders
// have all of the sums: those its unit is the first holder of.
std::vector<SegmentId> OwnedSegments(const Plan& plan, Rank rank, const ModelConfig& config);

// The slices among `slices`, a rank's, of a layer that lives with its holders: [first, end).
std::pair<int, int> SlicesOfLayer(absl::Span<const GradientSlice> slices, BlockId layer);

// Consecutive elements of one segment in a rank's arena that count in the norm of the gradients.
struct NormRun {
  SegmentId segment = 0;
  int64_t offset = 0;  // elements from the start of the arena
  int64_t elements = 0;
  friend bool operator==(const NormRun&, const NormRun&) = default;
};

// At most so many are in a segment that the rank's unit answers for: what is cut of each of a layer's branches lies side by side,
// but for keys and values between what attention has more.
constexpr int kMostNormRuns = kBranches + 1;

// What a rank counts beside its parts of what is cut.
struct CountedCopies {
  bool uncut = true;  // tensors that all ranks of the unit hold
  bool keys = true;   // keys' and values', which those hold that share their heads
};

// That of the `member`-th rank of a unit: what no rank before it has. So the ranks of a unit together count each
// element once.
CountedCopies CountedBy(const Unit& unit, const ModelConfig& config, int member);

// What is counted of an arena that is laid out as `layout`, ascending.
std::vector<NormRun> NormRunsOf(const ParameterLayout& layout, CountedCopies copies = {});

// The rank that writes each segment into checkpoints, by segment: one of its holding units, the largest being
// given out first, each to the rank that has fewest elements to write so far. The other ranks of the unit give
// it their parts.
std::vector<Rank> SegmentWriters(const Plan& plan, const ModelConfig& config);

// Segments that `rank` writes, ascending.
std::vector<SegmentId> SavedSegments(const Plan& plan, Rank rank, const ModelConfig& config);

}  // namespace medley
