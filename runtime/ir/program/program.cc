#include "runtime/ir/program/program.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace medley {

StepProgram GathersAlone(const StepProgram& step) {
  StepProgram alone = step;
  const auto end =
      std::find_if(alone.instructions.begin(), alone.instructions.end(), [](const Instruction& first) {
        return first.kind != InstructionKind::kGatherParameters || first.stream != Stream::kCollective;
      });
  alone.instructions.erase(end, alone.instructions.end());
  return alone;
}

bool IsReceive(InstructionKind kind) {
  return kind == InstructionKind::kReceiveActivation || kind == InstructionKind::kReceiveGradient;
}

bool IsGather(InstructionKind kind) {
  return kind == InstructionKind::kGatherActivation || kind == InstructionKind::kGatherGradient;
}

bool IsOfSlice(InstructionKind kind) {
  return kind == InstructionKind::kReduceGradients || kind == InstructionKind::kScatterGradients ||
         kind == InstructionKind::kGatherParameters;
}

bool IsGradient(InstructionKind kind) {
  return kind == InstructionKind::kBackward || kind == InstructionKind::kInputGradient ||
         kind == InstructionKind::kWeightGradient;
}

bool IsPass(InstructionKind kind) {
  return kind == InstructionKind::kForward || kind == InstructionKind::kRecompute || IsGradient(kind);
}

bool IsOfUnit(InstructionKind kind) {
  return IsPass(kind) || IsGather(kind) || kind == InstructionKind::kJoinGradients;
}

RowRange OwnRows(const BufferCounts& buffers, int64_t rows) {
  return buffers.sequence_parallel ? RowsOfMember(rows, buffers.ranks, buffers.member) : RowRange{0, rows};
}

RowCounts RowCountsOf(const BufferCounts& buffers, int64_t rows) {
  return {rows, OwnRows(buffers, rows).size()};
}

HomedBlocks HomedBlocksOf(const BufferCounts& buffers, const ModelConfig& config,
                          absl::Span<const BlockRange> chunks) {
  return buffers.activations_home == ActivationsHome::kHost
             ? FirstLayersHomed(config, chunks, buffers.homed_layers)
             : HomedBlocks{};
}

Operand Instruction::OperandOf(BufferKind buffer_kind) const {
  for (const Operand& operand : operands) {
    if (operand.buffer.index >= 0 && operand.buffer.kind == buffer_kind) return operand;
  }
  return {};
}

void Instruction::Add(const Operand& operand) {
  const auto free = std::find_if(operands.begin(), operands.end(),
                                 [](const Operand& other) { return other.buffer.index < 0; });
  if (free == operands.end()) std::abort();  // there are as many as any instruction has
  *free = operand;
}

void Instruction::WaitFor(int other) {
  if (other < 0 || std::find(waits_for.begin(), waits_for.end(), other) != waits_for.end()) return;
  const auto free = std::find(waits_for.begin(), waits_for.end(), -1);
  if (free == waits_for.end()) std::abort();
  *free = other;
}

int BufferCounts::of(BufferKind kind, int chunk) const {
  return const_cast<BufferCounts&>(*this).of(kind, chunk);
}

int& BufferCounts::of(BufferKind kind, int chunk) {
  switch (kind) {
    case BufferKind::kStash:
      return stash[chunk];
    case BufferKind::kLeavingStash:
      return leaving_stash[chunk];
    case BufferKind::kDeferred:
      return deferred[chunk];
    case BufferKind::kStashHome:
      return stash_home[chunk];
    case BufferKind::kRecomputed:
      return recomputed;
    case BufferKind::kStreamGradient:
      return stream_gradient;
    case BufferKind::kParameterWindow:
    case BufferKind::kGradientWindow:
    case BufferKind::kMomentWindow:
      return windows;
    case BufferKind::kInput:
      return input;
    case BufferKind::kOutput:
      return output;
    case BufferKind::kInputGradient:
      return input_gradient;
    case BufferKind::kOutputGradient:
      return output_gradient;
  }
  return stash[chunk];
}

std::string NameOf(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kReceiveActivation:
      return "receive activation";
    case InstructionKind::kGatherActivation:
      return "gather activation";
    case InstructionKind::kForward:
      return "forward";
    case InstructionKind::kSendActivation:
      return "send activation";
    case InstructionKind::kReceiveGradient:
      return "receive gradient";
    case InstructionKind::kGatherGradient:
      return "gather gradient";
    case InstructionKind::kBackward:
      return "backward";
    case InstructionKind::kInputGradient:
      return "input gradient";
    case InstructionKind::kWeightGradient:
      return "weight gradient";
    case InstructionKind::kRecompute:
      return "recompute";
    case InstructionKind::kJoinGradients:
      return "join gradients";
    case InstructionKind::kSendGradient:
      return "send gradient";
    case InstructionKind::kReduceGradients:
      return "reduce gradients";
    case InstructionKind::kScatterGradients:
      return "scatter gradients";
    case InstructionKind::kNormGradients:
      return "norm";
    case InstructionKind::kReduceScalars:
      return "reduce scalars";
    case InstructionKind::kAdvanceParameters:
      return "advance parameters";
    case InstructionKind::kUpdateParameters:
      return "update";
    case InstructionKind::kGatherParameters:
      return "gather parameters";
    case InstructionKind::kFetch:
      return "fetch";
    case InstructionKind::kStore:
      return "store";
    case InstructionKind::kZeroGradients:
      return "zero gradients";
  }
  return "?";
}

std::string NameOf(const Instruction& instruction) {
  const std::string name = NameOf(instruction.kind);
  if (instruction.OperandOf(BufferKind::kStashHome).buffer.index >= 0) return name + " activations";
  if (instruction.micro_batch >= 0 || instruction.blocks.size() == 0) return name;
  const char* what = "";
  if (instruction.kind == InstructionKind::kFetch || instruction.kind == InstructionKind::kStore) {
    const BufferKind kind = instruction.operands.front().buffer.kind;
    what = kind == BufferKind::kParameterWindow  ? " parameters"
           : kind == BufferKind::kGradientWindow ? " gradients"
                                                 : " optimizer state";
  }
  return absl::StrCat(name, what, " of layer ", LayerOfBlock(instruction.blocks.first).value());
}

}  // namespace medley
