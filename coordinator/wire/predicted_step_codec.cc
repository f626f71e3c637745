#include "coordinator/wire/predicted_step_codec.h"

#include "coordinator/problem/predicted_lanes.h"

namespace medley {
namespace {

v1::InstructionClass ClassOf(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kForward:
      return v1::INSTRUCTION_CLASS_FORWARD;
    case InstructionKind::kBackward:
      return v1::INSTRUCTION_CLASS_BACKWARD;
    case InstructionKind::kInputGradient:
      return v1::INSTRUCTION_CLASS_INPUT_GRADIENT;
    case InstructionKind::kWeightGradient:
      return v1::INSTRUCTION_CLASS_WEIGHT_GRADIENT;
    case InstructionKind::kRecompute:
      return v1::INSTRUCTION_CLASS_RECOMPUTE;
    case InstructionKind::kGatherActivation:
    case InstructionKind::kGatherGradient:
    case InstructionKind::kJoinGradients:
      return v1::INSTRUCTION_CLASS_EXCHANGE;
    case InstructionKind::kSendActivation:
    case InstructionKind::kSendGradient:
      return v1::INSTRUCTION_CLASS_SEND;
    case InstructionKind::kReceiveActivation:
    case InstructionKind::kReceiveGradient:
      return v1::INSTRUCTION_CLASS_RECEIVE;
    case InstructionKind::kReduceGradients:
    case InstructionKind::kScatterGradients:
    case InstructionKind::kReduceScalars:
    case InstructionKind::kGatherParameters:
      return v1::INSTRUCTION_CLASS_SUM;
    case InstructionKind::kNormGradients:
    case InstructionKind::kAdvanceParameters:
    case InstructionKind::kUpdateParameters:
    case InstructionKind::kZeroGradients:
      return v1::INSTRUCTION_CLASS_UPDATE;
    case InstructionKind::kFetch:
      return v1::INSTRUCTION_CLASS_FETCH;
    case InstructionKind::kStore:
      return v1::INSTRUCTION_CLASS_STORE;
  }
  return v1::INSTRUCTION_CLASS_UNSPECIFIED;
}

v1::PredictedInstruction EncodeInstruction(const Instruction& instruction, const InstructionTime& time,
                                           MicroBatchId first_micro_batch) {
  v1::PredictedInstruction encoded;
  encoded.set_instruction_class(ClassOf(instruction.kind));
  encoded.set_kind(NameOf(instruction));
  encoded.set_stream(static_cast<uint32_t>(instruction.stream));
  encoded.set_micro_batch(
      instruction.micro_batch < 0 ? -1 : instruction.micro_batch.value() - first_micro_batch.value());
  if (instruction.blocks.size() > 0) {
    encoded.mutable_blocks()->set_first(instruction.blocks.first);
    encoded.mutable_blocks()->set_end(instruction.blocks.end);
  }
  encoded.set_bytes(instruction.bytes.value);
  encoded.set_start_seconds(time.start_seconds);
  encoded.set_end_seconds(time.end_seconds);
  return encoded;
}

v1::PredictedLane EncodeLane(const PredictedLane& lane, const Plan& plan) {
  v1::PredictedLane encoded;
  encoded.set_kind(lane.kind);
  for (const LaneRank& rank : lane.ranks) {
    v1::LaneDevice& device = *encoded.add_devices();
    device.set_device(DeviceOf(plan, rank.rank));
    device.set_first_micro_batch(rank.first_micro_batch);
  }
  for (size_t i = 0; i < lane.instructions.size(); ++i) {
    *encoded.add_instructions() =
        EncodeInstruction(lane.instructions[i], lane.times[i], lane.ranks.front().first_micro_batch);
  }
  for (const MemoryUse& use : lane.memory) {
    v1::PredictedMemoryUse& memory = *encoded.add_memory();
    memory.set_from_seconds(use.from_seconds);
    memory.set_activation_bytes(use.activations.value);
    memory.set_boundary_bytes(use.boundaries.value);
  }
  encoded.set_left_out(lane.left_out);
  return encoded;
}

}  // namespace

v1::PredictedStep EncodePredictedStep(const PlannedJob& planned, const TrainingShape& shape) {
  v1::PredictedStep encoded;
  for (const PredictedLane& lane : PredictedLanesOf(planned, shape))
    *encoded.add_lanes() = EncodeLane(lane, planned.plan);
  return encoded;
}

}  // namespace medley
