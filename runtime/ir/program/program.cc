#include "runtime/ir/program/program.h"

namespace medley {

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

std::vector<int64_t> RowEnds(int64_t rows, int members) {
  std::vector<int64_t> ends(members);
  for (int m = 0; m < members; ++m) ends[m] = rows * (m + 1) / members;
  return ends;
}

bool IsGradient(InstructionKind kind) {
  return kind == InstructionKind::kBackward || kind == InstructionKind::kInputGradient ||
         kind == InstructionKind::kWeightGradient;
}

bool IsPass(InstructionKind kind) {
  return kind == InstructionKind::kForward || kind == InstructionKind::kRecompute || IsGradient(kind);
}

Operand Instruction::OperandOf(BufferKind buffer_kind) const {
  for (const Operand& operand : operands) {
    if (operand.buffer.index >= 0 && operand.buffer.kind == buffer_kind) return operand;
  }
  return {};
}

int BufferCounts::of(BufferKind kind, int chunk) const {
  return const_cast<BufferCounts&>(*this).of(kind, chunk);
}

int& BufferCounts::of(BufferKind kind, int chunk) {
  switch (kind) {
    case BufferKind::kStash:
      return stash[chunk];
    case BufferKind::kDeferred:
      return deferred[chunk];
    case BufferKind::kRecomputed:
      return recomputed;
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
    case InstructionKind::kUpdateParameters:
      return "update";
    case InstructionKind::kGatherParameters:
      return "gather parameters";
  }
  return "?";
}

}  // namespace medley
