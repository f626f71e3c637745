#include "runtime/ir/program/backward_passes.h"

namespace medley {

using OpKind = UnitOp::Kind;

BackwardPasses::BackwardPasses(StepWriter& writer, KeptActivations& kept, StepEnd& end,
                               const UnitOrder& order)
    : writer_(writer), kept_(kept), end_(end), last_(writer.unit().chunks.size()) {
  for (const UnitOp& op : order) {
    if (op.kind == OpKind::kBackward || op.kind == OpKind::kWeightGradient)
      last_[writer.program().visits[op.visit].chunk] = op;
  }
}

void BackwardPasses::Write(absl::Span<const UnitOp> passes) {
  switch (passes.front().kind) {
    case OpKind::kBackward:
      return WriteInputGradients(passes, InstructionKind::kBackward);
    case OpKind::kInputGradient:
      return WriteInputGradients(passes, InstructionKind::kInputGradient);
    default:
      return WriteWeightGradients(passes);
  }
}

void BackwardPasses::WriteInputGradients(absl::Span<const UnitOp> passes, InstructionKind kind) {
  for (const UnitOp& pass : passes) {
    const int i = writer_.Enter(pass);
    if (!writer_.at().last())
      writer_.AddGather(InstructionKind::kGatherGradient, BufferKind::kOutputGradient, i);
  }
  const bool both = kind == InstructionKind::kBackward;
  ForEachPiece(passes, both, [&](int i, BlockRange blocks, bool begins, bool ends) {
    const Visit& at = writer_.at();
    Operand made_layer;
    const bool made_again = kept_.MakesAgain(blocks);
    if (made_again) made_layer = WriteRecompute(i, blocks);
    Instruction piece = writer_.Make(kind, Stream::kCompute, i);
    piece.blocks = blocks;
    if (made_again) piece.Add(made_layer);
    kept_.AddTo(piece, i);
    if (!at.first()) {
      piece.Add(writer_.Read(BufferKind::kInput, i, both && ends));
      piece.Add(writer_.Write(BufferKind::kInputGradient, i, begins));
    }
    if (!at.last() && begins) piece.Add(writer_.Read(BufferKind::kOutputGradient, i, both));
    if (!both) piece.Add(writer_.Fill(BufferKind::kDeferred, i));
    if (KeepsStreamGradient(passes.size()) && !(begins && ends)) {
      Operand stream = writer_.Write(BufferKind::kStreamGradient, i, begins);
      stream.releases = ends;
      piece.Add(stream);
    }
    const int added = writer_.AddPiece(piece);
    if (ends && !at.first()) writer_.AddMessages(InstructionKind::kSendGradient, i);
    return added;
  });
}

void BackwardPasses::WriteWeightGradients(absl::Span<const UnitOp> passes) {
  ForEachPiece(passes, true, [&](int i, BlockRange blocks, bool begins, bool ends) {
    const Visit& at = writer_.at();
    Instruction piece = writer_.Make(InstructionKind::kWeightGradient, Stream::kCompute, i);
    piece.blocks = blocks;
    kept_.AddTo(piece, i);
    if (!at.first()) piece.Add(writer_.Read(BufferKind::kInput, i, ends));
    if (!at.last() && begins) piece.Add(writer_.Read(BufferKind::kOutputGradient, i, true));
    piece.Add(writer_.Read(BufferKind::kDeferred, i, ends));
    return writer_.Add(piece);
  });
}

Operand BackwardPasses::WriteRecompute(int i, BlockRange blocks) {
  Instruction recompute = writer_.Make(InstructionKind::kRecompute, Stream::kCompute, i);
  recompute.blocks = blocks;
  Operand made = kept_.MakeLayer(false);
  recompute.Add(made);
  kept_.AddTo(recompute, i);
  if (!writer_.at().first()) recompute.Add(writer_.Read(BufferKind::kInput, i, false));
  writer_.AddPiece(recompute);
  made.fills = false;
  made.releases = true;
  return made;
}

// Whether other micro-batches' pieces come between those of the backward at hand, and the gradient of the residual
// stream is not kept where it leaves the unit.
bool BackwardPasses::KeepsStreamGradient(size_t passes) const {
  const Visit& at = writer_.at();
  return passes > 1 && (at.first() || writer_.TypeAcross(at.previous) != writer_.unit().activations);
}

// Calls emit(micro-batch, blocks, whether they are the chunk's last ones, whether its first), which returns the
// instruction's index, for each of the passes, piece by piece in the order in which backward goes through
// them. `of_weights`: they make weights' gradients.
template <typename Emit>
void BackwardPasses::ForEachPiece(absl::Span<const UnitOp> passes, bool of_weights, const Emit& emit) {
  writer_.Enter(passes.back());
  const bool last_of_chunk = of_weights && passes.back() == last_[writer_.at().chunk];
  const BlockRange whole = writer_.chunk();
  FindPieces(last_of_chunk);
  BlockId end = whole.end;
  for (const BlockId first : first_blocks_) {
    const BlockRange blocks{first, end};
    int added = -1;
    for (const UnitOp& pass : passes)
      added = emit(writer_.Enter(pass), blocks, end == whole.end, first == whole.first);
    if (last_of_chunk) end_.Complete(blocks, added);
    end = first;
  }
}

void BackwardPasses::FindPieces(bool last_of_chunk) {
  const BlockRange whole = writer_.chunk();
  first_blocks_.clear();
  if (writer_.backwards_by_layer()) {
    for (int block = whole.end - 1; block >= whole.first; --block) first_blocks_.push_back(block);
    return;
  }
  if (last_of_chunk) {
    for (const StepWriter::SliceBegin& begin : writer_.slice_begins()) {
      if (begin.block <= whole.first || begin.block >= whole.end) continue;
      // Slices on peers and others may begin with one block.
      if (first_blocks_.empty() || first_blocks_.back() != begin.block) first_blocks_.push_back(begin.block);
    }
  }
  first_blocks_.push_back(whole.first);
}

}  // namespace medley
