#include "runtime/engine/exec/device_passes.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/row_counts.h"

namespace medley {

DevicePasses::DevicePasses(const Visits& visits, const TrainingShape& shape, ModelShard& shard,
                           WindowSource& windows)
    : visits_(visits), shape_(shape), shard_(shard), windows_(windows) {
  for (const SegmentId segment : shard.arena().layout().segments) {
    if (!shard.arena().LivesOnHost(segment)) segments_on_device_.push_back(segment);
  }
}

void DevicePasses::SetGroup(RankGroup* group) {
  group_ = group;
  shard_.SetGroup(group);
}

absl::Status DevicePasses::Submit(const Instruction& instruction, Purpose purpose, int64_t data_step) {
  switch (instruction.kind) {
    case InstructionKind::kGatherActivation:
    case InstructionKind::kGatherGradient:
      return Gather(instruction);
    case InstructionKind::kForward:
      return Forward(instruction, purpose, data_step);
    case InstructionKind::kRecompute:
      return shard_.MakeAgain(BuffersOf(instruction), instruction.blocks);
    case InstructionKind::kBackward:
      return shard_.Backward(BuffersOf(instruction), instruction.blocks);
    case InstructionKind::kInputGradient:
      return shard_.InputGradient(BuffersOf(instruction));
    case InstructionKind::kWeightGradient:
      return shard_.WeightGradient(BuffersOf(instruction), instruction.blocks);
    case InstructionKind::kZeroGradients:
      return shard_.ZeroGradientsOf(instruction.blocks.first);
    case InstructionKind::kJoinGradients:
      return shard_.JoinGradients(instruction.chunk, instruction.blocks);
    case InstructionKind::kNormGradients:
      if (instruction.blocks.size() > 0)
        return shard_.ComputeNorms({SegmentOfBlock(instruction.blocks.first)});
      RETURN_IF_ERROR(shard_.ComputeNorms(segments_on_device_));
      return shard_.FetchScalars();
    default:
      break;
  }
  return absl::InternalError(absl::StrCat(NameOf(instruction.kind), ": not for the device"));
}

absl::Status DevicePasses::Gather(const Instruction& instruction) {
  const Operand& operand = instruction.operands.front();
  Slice x = shard_.BoundaryOf(operand.buffer, operand.dtype);
  x.elements = instruction.bytes.value / SizeOf(x.dtype).value;
  const int64_t hidden = shape_.model.hidden;
  std::vector<int64_t> ends = RowEnds(x.elements / hidden, group_->members());
  for (int64_t& end : ends) end *= hidden;
  return group_->Gather(x, ends);
}

absl::Status DevicePasses::Forward(const Instruction& pass, Purpose purpose, int64_t data_step) {
  RETURN_IF_ERROR(LoadTokens(pass, purpose, data_step + (pass.next_step ? 1 : 0)));
  return shard_.Forward(BuffersOf(pass), pass.blocks, purpose);
}

absl::Status DevicePasses::LoadTokens(const Instruction& pass, Purpose purpose, int64_t data_step) {
  const bool inputs = pass.blocks.contains(shape_.model.embedding_block());
  const bool targets = pass.blocks.contains(shape_.model.head_block());
  if (!inputs && !targets) return absl::OkStatus();
  const Visit& at = visits_[pass.visit];
  const int sequence = shape_.sequence, count = at.micro_batch_sequences;
  const int first = at.first_sequence + (pass.micro_batch - at.first_micro_batch) * count;
  std::vector<int32_t> window(sequence + 1), input_ids, target_ids;
  for (int i = 0; i < count; ++i) {
    RETURN_IF_ERROR(windows_.Read(purpose, data_step, first + i, absl::MakeSpan(window)));
    input_ids.insert(input_ids.end(), window.begin(), window.end() - 1);
    target_ids.insert(target_ids.end(), window.begin() + 1, window.end());
  }
  if (inputs) RETURN_IF_ERROR(shard_.SetTokens(BuffersOf(pass), input_ids));
  if (targets) RETURN_IF_ERROR(shard_.SetTargets(BuffersOf(pass), target_ids));
  return absl::OkStatus();
}

ModelShard::PassBuffers DevicePasses::BuffersOf(const Instruction& pass) const {
  const auto index = [&](BufferKind kind) { return pass.OperandOf(kind).buffer.index; };
  const auto boundary = [&](BufferKind kind) {
    const Operand operand = pass.OperandOf(kind);
    return ModelShard::Boundary(operand.buffer.index, operand.dtype);
  };
  return {.chunk = pass.chunk,
          .micro_batch_sequences = visits_[pass.visit].micro_batch_sequences,
          .stash = index(BufferKind::kStash),
          .leaving_stash = index(BufferKind::kLeavingStash),
          .deferred = index(BufferKind::kDeferred),
          .recomputed = index(BufferKind::kRecomputed),
          .stream_gradient = index(BufferKind::kStreamGradient),
          .input = boundary(BufferKind::kInput),
          .output = boundary(BufferKind::kOutput),
          .input_gradient = boundary(BufferKind::kInputGradient),
          .output_gradient = boundary(BufferKind::kOutputGradient)};
}

}  // namespace medley
