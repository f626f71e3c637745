#pragma once
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

// Copies what a rank with `share` of the model `config` holds of `segment`, in the order of its arena, to
// where it belongs in the whole tensors, `whole`.
void PlaceHeld(const ModelConfig& config, SegmentId segment, const ModelShare& share,
               absl::Span<const float> held, absl::Span<float> whole);

// Brings the parts that the ranks of a unit hold of a segment to the one of them that writes it
// (SegmentWriters).
//
// It goes by rounds, in each of which a rank gathers one segment at most: between two of them all ranks write
// at a time. All ranks of the unit call Gather for each round, in order, whether or not they can write what
// comes. On the host a rank has then the three parts of the segment that it writes and, of one of them at a
// time, what it gives for the others' segments and gets for its own: about five times the parameters of a
// segment. A unit of one rank sends nothing.
//
// What it is given outlives it. Thread: the one that submits to the device's queue.
class SegmentGather {
 public:
  // `arena` is that of `rank`, which `transport` is of.
  SegmentGather(const Plan& plan, Rank rank, const ModelConfig& config, const ParameterArena& arena,
                Transport& transport, ActivityBoard& board);

  // Until all segments that the unit's ranks write have been gathered; the same on all of them.
  int rounds() const { return rounds_; }
  // Which one this rank gathers in `round`.
  std::optional<SegmentId> SegmentOf(int round) const { return SegmentOf(round, member_); }
  // Whether it has no others to gather from.
  bool IsAlone() const { return shares_.size() == 1; }

  // The values of SegmentOf(round), if there is one. Blocks until the other ranks of the unit have come to
  // the round and given this one their parts, and taken its own: for as long as that takes.
  // Errors: of the device; of the transport, with the rank: Unavailable, it is gone.
  absl::StatusOr<std::optional<SegmentValues>> Gather(int round);

 private:
  std::optional<SegmentId> SegmentOf(int round, int member) const;
  // Whether the unit's ranks hold unlike parts of `segment`.
  bool IsCut(SegmentId segment) const;
  // Elements that the `member`-th rank of the unit holds of `segment`.
  int64_t HeldBy(int member, SegmentId segment) const;
  // One part of all segments of the round; `whole`: of SegmentOf(round), empty if there is none.
  absl::Status Exchange(int round, ParameterArena::Part part, absl::Span<float> whole);
  absl::Status Await(Transfer& transfer, int member);

  const ModelConfig& config_;
  const ParameterArena& arena_;
  Transport& transport_;
  ActivityBoard& board_;
  const Rank first_rank_;                 // of the unit
  const int member_;                      // that this rank is
  const std::vector<ModelShare> shares_;  // by member, as all below
  std::vector<std::vector<SegmentId>> saved_;
  int rounds_ = 0;
};

}  // namespace medley
