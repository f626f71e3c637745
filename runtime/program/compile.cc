#include <algorithm>
#include <numeric>

#include "runtime/model/parameters.h"
#include "runtime/program/program.h"
#include "runtime/program/schedule.h"

namespace medley {
namespace {

// Two: one in use by compute while the other travels.
constexpr int kTravelSlots = 2;

// A bucket of gradients is at least as large as the smaller of 16 MiB and an eighth of the model, but for the last of a
// run of segments.
constexpr int64_t kLargeBucketElements = int64_t{4} << 20;
constexpr int64_t kFewestBuckets = 8;

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
    if (purpose_ == Purpose::kTrain) program_.slices = SlicesOf(plan_, program_.unit, shape_.model);
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
    if (previous_ >= 0) {
      backward.input_gradient_slot = i % slots.input_gradient;
      if (i >= slots.input_gradient) backward.waits_for[1] = send_gradient_[i - slots.input_gradient];
    }
    backward.blocks = plan_.units[program_.unit].blocks;
    if (i == program_.position.micro_batches - 1) {
      EmitPiecesButLast(backward);
    }
    backward_[i] = Add(backward);
    if (i == program_.position.micro_batches - 1) pieces_.push_back({backward.blocks.first, backward_[i]});
    if (previous_ >= 0) {
      Instruction send = Message(InstructionKind::kSendGradient, Stream::kSendGradient, i, previous_);
      send.input_slot = backward.input_gradient_slot;
      send.waits_for[0] = backward_[i];
      send_gradient_[i] = Add(send);
    }
  }

  // Cuts the last backward where a slice is complete, so that its reduction need not wait for the rest; `backward` becomes
  // the last piece.
  void EmitPiecesButLast(Instruction& backward) {
    for (const GradientSlice& slice : program_.slices) {
      const int block = slice.completed_by;
      if (block <= backward.blocks.first || block >= backward.blocks.end) continue;
      Instruction piece = backward;
      piece.blocks.first = block;
      pieces_.push_back({block, Add(piece)});
      backward.blocks.end = block;
      backward.waits_for = {-1, -1, -1};  // the compute stream keeps the order
    }
  }

  void EmitReductions() {
    for (int s = 0; s < static_cast<int>(program_.slices.size()); ++s) {
      Instruction reduce = Make(InstructionKind::kReduceGradients, Stream::kCollective, -1);
      reduce.slice = s;
      reduce.bytes = {program_.slices[s].elements * 4};
      const auto piece = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& p) {
        return p.first_block <= program_.slices[s].completed_by;
      });
      reduce.waits_for[0] = piece->instruction;
      last_reduce_ = Add(reduce);
    }
    Instruction norm = Make(InstructionKind::kNormGradients, Stream::kCompute, -1);
    norm.waits_for[0] = last_reduce_;  // the compute stream keeps it behind the backwards
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
  // Of the last backward, from the last block to the first.
  struct Piece {
    int first_block;
    int instruction;
  };
  std::vector<Piece> pieces_;
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

std::vector<std::pair<int, int>> CutIntoBuckets(const ModelConfig& config, int first_segment, int end_segment) {
  const int64_t enough = std::min(kLargeBucketElements, ModelElements(config) / kFewestBuckets);
  std::vector<std::pair<int, int>> buckets;
  int64_t elements = 0;
  for (int segment = end_segment - 1, end = end_segment; segment >= first_segment; --segment) {
    elements += SegmentElements(config, segment);
    if (elements < enough && segment > first_segment) continue;
    if (elements > 0) buckets.push_back({segment, end});
    end = segment;
    elements = 0;
  }
  return buckets;
}

int CompletedBy(const ModelConfig& config, BlockRange blocks, int first_segment) {
  if (first_segment != kTiedSegment) return first_segment - 1;
  return blocks.contains(config.embedding_block()) ? config.embedding_block() : config.head_block();
}

std::vector<GradientSlice> SlicesOf(const Plan& plan, int unit, const ModelConfig& config) {
  // Runs of segments with the same holders; empty ones are passed over.
  std::vector<GradientSlice> runs;
  for (const int segment : SegmentsOf(config, plan.units[unit].blocks)) {
    if (SegmentElements(config, segment) == 0) continue;
    std::vector<int> holders = HoldersOf(plan, config, segment);
    if (!runs.empty() && runs.back().holders == holders && AreEmpty(config, runs.back().end_segment, segment)) {
      runs.back().end_segment = segment + 1;
    } else {
      runs.push_back({segment, segment + 1, 0, std::move(holders)});
    }
  }
  std::vector<GradientSlice> slices;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->holders.size() < 2) continue;
    for (const auto& [first, end] : CutIntoBuckets(config, run->first_segment, run->end_segment)) {
      GradientSlice& slice = slices.emplace_back(GradientSlice{first, end, 0, run->holders});
      for (int segment = first; segment < end; ++segment) slice.elements += SegmentElements(config, segment);
      slice.completed_by = CompletedBy(config, plan.units[unit].blocks, first);
    }
  }
  return slices;
}

std::vector<int> OwnedSegments(const Plan& plan, int unit, const ModelConfig& config) {
  std::vector<int> owned = SegmentsOf(config, plan.units[unit].blocks);
  std::erase_if(owned, [&](int segment) { return HoldersOf(plan, config, segment).front() != unit; });
  return owned;
}

std::vector<int> SavedSegments(const Plan& plan, int unit, const ModelConfig& config) {
  std::vector<int> segments(SegmentCount(config));
  std::iota(segments.begin(), segments.end(), 0);
  std::stable_sort(segments.begin(), segments.end(), [&](int a, int b) {
    return SegmentElements(config, a) > SegmentElements(config, b);
  });
  std::vector<int64_t> elements(plan.units.size());  // to write, by unit
  std::vector<int> saved;
  for (const int segment : segments) {
    const std::vector<int> holders = HoldersOf(plan, config, segment);
    const int writer = *std::min_element(holders.begin(), holders.end(),
                                         [&](int a, int b) { return elements[a] < elements[b]; });
    elements[writer] += SegmentElements(config, segment);
    if (writer == unit) saved.push_back(segment);
  }
  std::sort(saved.begin(), saved.end());
  return saved;
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
