#include "runtime/ir/program/forward_passes.h"

namespace medley {

ForwardPasses::ForwardPasses(StepWriter& writer, KeptActivations& kept, StepEnd& end,
                             const ParameterGathers& gathers, const GoingAhead& going_ahead)
    : writer_(writer),
      kept_(kept),
      end_(end),
      gathers_(gathers),
      going_ahead_(going_ahead),
      forwarded_(writer.unit().chunks.size(), false) {}

void ForwardPasses::Write(absl::Span<const UnitOp> passes) {
  for (const UnitOp& pass : passes) {
    const int i = writer_.Enter(pass);
    if (!writer_.at().first()) writer_.AddGather(InstructionKind::kGatherActivation, BufferKind::kInput, i);
  }
  writer_.Enter(passes.front());
  const BlockRange whole = writer_.chunk();
  const bool first_of_chunk = !forwarded_[writer_.at().chunk];
  forwarded_[writer_.at().chunk] = true;
  for (BlockRange piece{whole.first, whole.first}; piece.end < whole.end; piece.first = piece.end) {
    piece.end = EndOfPiece(piece.first, first_of_chunk);
    const bool begins = piece.first == whole.first, ends = piece.end == whole.end;
    for (const UnitOp& pass : passes) {
      const int i = writer_.Enter(pass);
      const Visit& at = writer_.at();
      Instruction forward = writer_.Make(InstructionKind::kForward, Stream::kCompute, i);
      forward.blocks = piece;
      if (first_of_chunk) forward.WaitFor(gathers_.LastOf(piece));
      kept_.AddTo(forward, i);
      if (!at.first() && begins) forward.Add(writer_.Read(BufferKind::kInput, i, !writer_.trains()));
      if (!at.last() && ends) forward.Add(writer_.Fill(BufferKind::kOutput, i));
      if (kept_.MakesAgain(piece)) forward.Add(kept_.MakeLayer(true));
      end_.Forwarded(writer_.AddPiece(forward));
      if (ends) kept_.StoreBehindForward(i);
      if (!at.last() && ends) SendOutput(i);
    }
  }
}

BlockId ForwardPasses::EndOfPiece(BlockId first, bool first_of_chunk) const {
  if (writer_.windows_here()) return first + 1;
  return first_of_chunk ? gathers_.EndOfPiece(first) : writer_.chunk().end;
}

void ForwardPasses::SendOutput(int i) {
  const StageId stage = writer_.at().stage;
  const MicroBatchId micro_batch = writer_.at().first_micro_batch + i;
  if (going_ahead_.Contains(stage, micro_batch) && !going_ahead_.Contains(stage + 1, micro_batch)) {
    sent_later_.emplace_back(writer_.visit(), i);
  } else {
    writer_.AddMessages(InstructionKind::kSendActivation, i);
  }
}

void ForwardPasses::SendWhatWaits() {
  for (const auto& [visit, i] : sent_later_) {
    writer_.Enter(visit);
    writer_.AddMessages(InstructionKind::kSendActivation, i);
  }
  sent_later_.clear();
}

}  // namespace medley
