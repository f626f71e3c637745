#pragma once
#include <vector>

#include "absl/types/span.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/kept_activations.h"
#include "runtime/ir/program/step_end.h"
#include "runtime/ir/program/step_writer.h"

namespace medley {

// Writes the passes that make gradients, with what they send, from a chunk's last block to its first. The last one that adds
// to the gradients of a chunk's weights is cut where a slice is complete, so that its reduction need not wait for the rest,
// and each piece's end is told to StepEnd. Where layers are made again, or have windows, a piece is a block.
class BackwardPasses {
 public:
  // `order`: what the unit does in the step, first to last. All outlive it.
  BackwardPasses(StepWriter& writer, KeptActivations& kept, StepEnd& end, const UnitOrder& order);

  // Of one kind, one that makes gradients, and of one chunk: a piece of each pass, then the next piece of each.
  void Write(absl::Span<const UnitOp> passes);

 private:
  // Both gradients, or that of the input alone: what it leaves for the other one is not released then.
  void WriteInputGradients(absl::Span<const UnitOp> passes, InstructionKind kind);
  void WriteWeightGradients(absl::Span<const UnitOp> passes);
  // Writes that what is not kept of `blocks` is made again; by which operand it is used.
  Operand WriteRecompute(int i, BlockRange blocks);
  template <typename Emit>
  void ForEachPiece(absl::Span<const UnitOp> passes, bool of_weights, const Emit& emit);
  void FindPieces(bool last_of_chunk);
  bool KeepsStreamGradient(size_t passes) const;

  StepWriter& writer_;
  KeptActivations& kept_;
  StepEnd& end_;
  absl::InlinedVector<UnitOp, 1> last_;  // of each chunk: the last to add to its weights' gradients
  std::vector<BlockId> first_blocks_;    // of the pieces of the backward at hand
};

}  // namespace medley
