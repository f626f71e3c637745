#include <algorithm>

#include "runtime/model/parameters.h"
#include "runtime/program/program.h"
#include "runtime/program/schedule.h"

namespace medley {
namespace {

// Two: one in use by compute while the other travels.
constexpr int kTravelSlots = 2;

class Compiler {
 public:
  Compiler(const Plan& plan, int unit, const TrainingShape& shape, Purpose purpose)
      : plan_(plan), shape_(shape), purpose_(purpose) {
    program_.unit = unit;
    program_.position = PositionOf(plan, unit);
  }

  StepProgram Run() {
    const Position& at = program_.position;
    const bool first = at.stage == 0, last = at.stage == at.stages - 1;
    const std::vector<int>& units = plan_.routes[at.route].units;
    previous_ = first ? -1 : units[at.stage - 1];
    next_ = last ? -1 : units[at.stage + 1];
    order_ = OrderOf(plan_.schedule, at.stage, at.stages, at.micro_batches);
    if (purpose_ == Purpose::kEvaluate) {
      std::erase_if(order_, [](const StageOp& op) { return op.kind == StageOp::Kind::kBackward; });
    }
    CountSlots(first, last);
    EmitPasses();
    if (purpose_ == Purpose::kTrain) EmitReductions();
    EmitEnd();
    return std::move(program_);
  }

 private:
  void CountSlots(bool first, bool last) {
    SlotCounts& slots = program_.slots;
    const bool train = purpose_ == Purpose::kTrain;
    slots.stash = train ? PeakInFlight(order_) : 1;
    slots.input = first ? 0 : slots.stash + 1;  // one more: the next input arrives while all are in flight
    slots.output = last ? 0 : kTravelSlots;
    slots.input_gradient = train && !first ? kTravelSlots : 0;
    slots.output_gradient = train && !last ? kTravelSlots : 0;
  }

  // Emits the i-th forward and backward with their messages. An instruction that fills a buffer waits for the
  // one that last used it.
  void EmitPasses() {
    const Position& at = program_.position;
    const int m = at.micro_batches;
    forward_.assign(m, -1);
    backward_.assign(m, -1);
    send_activation_.assign(m, -1);
    send_gradient_.assign(m, -1);
    std::vector<int> receive_activation(m, -1);
    for (const StageOp& op : order_) {
      const int i = op.micro_batch;
      if (op.kind == StageOp::Kind::kForward) {
        EmitForward(i, receive_activation);
      } else {
        EmitBackward(i);
      }
    }
    // An input buffer is free once its last user is done; that user may stand later in the list.
    const int slots = program_.slots.input;
    for (int i = slots; slots > 0 && i < m; ++i) {
      const int user = purpose_ == Purpose::kTrain ? backward_[i - slots] : forward_[i - slots];
      program_.instructions[receive_activation[i]].waits_for[0] = user;
    }
  }

  void EmitForward(int i, std::vector<int>& receive_activation) {
    const SlotCounts& slots = program_.slots;
    Instruction forward = Make(InstructionKind::kForward, Stream::kCompute, i);
    forward.stash_slot = i % slots.stash;
    if (slots.input > 0) forward.input_slot = i % slots.input;
    if (slots.output > 0) forward.output_slot = i % slots.output;
    if (previous_ >= 0) {
      Instruction receive = Message(InstructionKind::kReceiveActivation, Stream::kReceiveActivation, i, previous_);
      receive.input_slot = forward.input_slot;
      receive_activation[i] = Add(receive);
      forward.waits_for[0] = receive_activation[i];
    }
    if (next_ >= 0 && i >= slots.output) forward.waits_for[1] = send_activation_[i - slots.output];
    forward_[i] = Add(forward);
    if (next_ >= 0) {
      Instruction send = Message(InstructionKind::kSendActivation, Stream::kSendActivation, i, next_);
      send.output_slot = forward.output_slot;
      send.waits_for[0] = forward_[i];
      send_activation_[i] = Add(send);
    }
  }

  void EmitBackward(int i) {
    const SlotCounts& slots = program_.slots;
    Instruction backward = Make(InstructionKind::kBackward, Stream::kCompute, i);
    backward.stash_slot = i % slots.stash;
    if (slots.input > 0) backward.input_slot = i % slots.input;
    if (next_ >= 0) {
      Instruction receive = Message(InstructionKind::kReceiveGradient, Stream::kReceiveGradient, i, next_);
      receive.output_slot = i % slots.output_gradient;
      if (i >= slots.output_gradient) receive.waits_for[0] = backward_[i - slots.output_gradient];
      backward.output_slot = receive.output_slot;
      backward.waits_for[0] = Add(receive);
    }
    if (previous_ >= 0 && i >= slots.input_gradient) backward.waits_for[1] = send_gradient_[i - slots.input_gradient];
    backward_[i] = Add(backward);
    if (previous_ >= 0) {
      Instruction send = Message(InstructionKind::kSendGradient, Stream::kSendGradient, i, previous_);
      send.input_slot = i % slots.input_gradient;
      send.waits_for[0] = backward_[i];
      send_gradient_[i] = Add(send);
    }
  }

  void EmitReductions() {
    program_.slices = SlicesOf(plan_, program_.unit, shape_.model);
    for (int s = 0; s < static_cast<int>(program_.slices.size()); ++s) {
      Instruction reduce = Make(InstructionKind::kReduceGradients, Stream::kCollective, -1);
      reduce.slice = s;
      reduce.bytes = {program_.slices[s].elements * 4};
      reduce.waits_for[0] = backward_.back();
      last_reduce_ = Add(reduce);
    }
    Instruction norm = Make(InstructionKind::kNormGradients, Stream::kCompute, -1);
    norm.waits_for[0] = last_reduce_;
    last_compute_ = Add(norm);
  }

  void EmitEnd() {
    Instruction scalars = Make(InstructionKind::kReduceScalars, Stream::kCollective, -1);
    scalars.waits_for[0] = purpose_ == Purpose::kTrain ? last_compute_ : forward_.back();
    const int reduced = Add(scalars);
    if (purpose_ != Purpose::kTrain) return;
    Instruction update = Make(InstructionKind::kUpdateParameters, Stream::kCompute, -1);
    update.waits_for[0] = reduced;
    Add(update);
  }

  Instruction Make(InstructionKind kind, Stream stream, int i) const {
    Instruction instruction{.kind = kind, .stream = stream};
    if (i >= 0) instruction.micro_batch = program_.position.first_micro_batch + i;
    return instruction;
  }

  Instruction Message(InstructionKind kind, Stream stream, int i, int peer) const {
    Instruction instruction = Make(kind, stream, i);
    instruction.peer = peer;
    instruction.bytes = {int64_t{4} * plan_.micro_batch_sequences * shape_.sequence * shape_.model.hidden};
    return instruction;
  }

  int Add(const Instruction& instruction) {
    program_.instructions.push_back(instruction);
    return static_cast<int>(program_.instructions.size()) - 1;
  }

  const Plan& plan_;
  const TrainingShape& shape_;
  const Purpose purpose_;
  StepProgram program_;
  std::vector<StageOp> order_;
  int previous_ = -1, next_ = -1;
  // Index of the i-th micro-batch's instruction; -1 until emitted.
  std::vector<int> forward_, backward_, send_activation_, send_gradient_;
  int last_reduce_ = -1, last_compute_ = -1;
};

}  // namespace

StepProgram CompileStep(const Plan& plan, int unit, const TrainingShape& shape, Purpose purpose) {
  return Compiler(plan, unit, shape, purpose).Run();
}

// Whether segments [first, end) have no parameters.
static bool AreEmpty(const ModelConfig& config, int first, int end) {
  for (int segment = first; segment < end; ++segment) {
    if (SegmentElements(config, segment) > 0) return false;
  }
  return true;
}

std::vector<GradientSlice> SlicesOf(const Plan& plan, int unit, const ModelConfig& config) {
  std::vector<GradientSlice> slices;
  for (const int segment : SegmentsOf(config, plan.units[unit].blocks)) {
    std::vector<int> holders = HoldersOf(plan, config, segment);
    const int64_t elements = SegmentElements(config, segment);
    if (holders.size() < 2 || elements == 0) continue;
    if (!slices.empty() && slices.back().holders == holders && AreEmpty(config, slices.back().end_segment, segment)) {
      slices.back().end_segment = segment + 1;
      slices.back().elements += elements;
    } else {
      slices.push_back({segment, segment + 1, elements, std::move(holders)});
    }
  }
  std::reverse(slices.begin(), slices.end());
  return slices;
}

std::vector<int> OwnedSegments(const Plan& plan, int unit, const ModelConfig& config) {
  std::vector<int> owned = SegmentsOf(config, plan.units[unit].blocks);
  std::erase_if(owned, [&](int segment) { return HoldersOf(plan, config, segment).front() != unit; });
  return owned;
}

std::string NameOf(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kReceiveActivation: return "receive activation";
    case InstructionKind::kForward: return "forward";
    case InstructionKind::kSendActivation: return "send activation";
    case InstructionKind::kReceiveGradient: return "receive gradient";
    case InstructionKind::kBackward: return "backward";
    case InstructionKind::kSendGradient: return "send gradient";
    case InstructionKind::kReduceGradients: return "reduce gradients";
    case InstructionKind::kNormGradients: return "norm";
    case InstructionKind::kReduceScalars: return "reduce scalars";
    case InstructionKind::kUpdateParameters: return "update";
  }
  return "?";
}

}  // namespace medley
