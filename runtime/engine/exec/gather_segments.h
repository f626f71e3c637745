#pragma once
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "comm/transport/transport.h"
#include "runtime/engine/exec/activity_board.h"
#include "runtime/engine/shard/parameter_arena.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/gradient_slices.h"
#include "runtime/ir/program/optimizer_shard.h"

namespace medley {

// Parameters and AdamW's moments of one segment on the host: whole tensors, one after another, as CutSegment
// takes them.
struct SegmentValues {
  // Zero; `elements`: SegmentElements of the whole model.
  explicit SegmentValues(int64_t elements) : parameters(elements), m(elements), v(elements) {}
  std::vector<float>& of(ParameterArena::Part part);

  std::vector<float> parameters, m, v;
};

// The parts of an arena that a checkpoint has.
constexpr ParameterArena::Part kSavedParts[] = {ParameterArena::Part::kParameter,
                                                ParameterArena::Part::kFirstMoment,
                                                ParameterArena::Part::kSecondMoment};

// Copies `values`, which a rank with `share` of the model `config` has of `segment`, to where they belong in the
// whole tensors, `whole`. `runs`: which of the elements that it holds of the segment they are, counted from the
// segment's first one, and where they lie in `values`.
void PlaceHeld(const ModelConfig& config, SegmentId segment, const ModelShare& share,
               absl::Span<const OwnedRun> runs, absl::Span<const float> values, absl::Span<float> whole);

// Brings a segment to the rank that writes it (SegmentWriters): the parts of its parameters that the ranks of
// its unit hold, and the moments of those that own them; where the plan does not shard the optimizer, these
// are the same ranks, and otherwise of any unit that holds the segment.
//
// It goes by rounds, in each of which a rank gathers one segment at most: between two of them all ranks write
// at a time. All ranks of the unit, of a plan that shards the optimizer all ranks, call Gather for each round,
// in order, whether or not they can write what comes. On the host a rank has then the three parts of the
// segment that it writes and, of one of them at a time, what it gives for the others' segments and gets for
// its own: about five times the parameters of a segment, and where the optimizer is sharded what it owns of
// segments that others write. Who has all of what it writes is sent nothing.
//
// What it is given outlives it. Thread: the one that submits to the device's queue.
class SegmentGather {
 public:
  // `arena` is that of `rank`, which `transport` is of.
  SegmentGather(const Plan& plan, Rank rank, const ModelConfig& config, const ParameterArena& arena,
                Transport& transport, ActivityBoard& board);

  // Until all segments that the ranks which call it together write have been gathered; the same on all of them.
  int rounds() const { return rounds_; }
  // Which one this rank gathers in `round`.
  std::optional<SegmentId> SegmentOf(int round) const { return SegmentOf(round, rank_); }
  // Whether it has no others to gather from.
  bool IsAlone() const { return saved_.size() == 1; }

  // The values of SegmentOf(round), if there is one. Blocks until the others have come to the round and given
  // this one their parts, and taken its own: for as long as that takes.
  // Errors: of the device; of the transport, with the rank: Unavailable, it is gone.
  absl::StatusOr<std::optional<SegmentValues>> Gather(int round);

 private:
  std::optional<SegmentId> SegmentOf(int round, Rank rank) const;
  // Whether the ranks of `unit` hold unlike parts of `segment`.
  bool IsCut(UnitId unit, SegmentId segment) const;
  // What `giver` gives of a part of `segment` to `writer`, or has of it if it is the writer: as PlaceHeld
  // takes it, the values lying one after another.
  std::vector<OwnedRun> GivenBy(Rank giver, Rank writer, SegmentId segment, ParameterArena::Part part);
  std::vector<OwnedRun> OwnedBy(Rank rank, SegmentId segment);
  // What ranks have in common that hold alike (HoldAlike), with `unit` and `member` those of one of them.
  struct Holding {
    const Unit& unit;
    int member = 0;
    ParameterLayout layout;
    std::vector<GradientSlice> slices;
  };
  const Holding& HoldingOf(Rank rank);
  // One part of all segments of the round; `whole`: of SegmentOf(round), empty if there is none.
  absl::Status Exchange(int round, ParameterArena::Part part, absl::Span<float> whole);
  absl::Status Await(Transfer& transfer, Rank rank);

  const Plan& plan_;
  const Rank rank_;
  const ModelConfig& config_;
  const ParameterArena& arena_;
  Transport& transport_;
  ActivityBoard& board_;
  Rank first_rank_;                            // of those that gather together
  std::vector<std::vector<SegmentId>> saved_;  // by rank, from that one on
  int rounds_ = 0;
  std::vector<RankPlace> places_;  // by rank
  std::vector<bool>
      is_shared_;  // by segment: by several ranks that sum it, of a plan that shards the optimizer
  std::list<Holding> holdings_;  // of the ranks that have been asked for; few, however many ranks there are
};

}  // namespace medley
