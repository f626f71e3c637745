#include <algorithm>
#include <numeric>

#include "runtime/model/parameters.h"
#include "runtime/program/assign_buffers.h"
#include "runtime/program/program.h"
#include "runtime/program/schedule.h"

namespace medley {
namespace {

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
    if (purpose_ == Purpose::kTrain) program_.slices = SlicesOf(plan_, program_.unit, shape_.model);
    EmitPasses();
    program_.buffers = AssignBuffers(program_.instructions);
    if (purpose_ == Purpose::kTrain) EmitReductions();
    EmitEnd();
    return std::move(program_);
  }

 private:
  // The i-th forward and backward with their messages. Their operands name contents by i; buffers come later.
  void EmitPasses() {
    program_.instructions.reserve(3 * order_.size() + 2 * program_.slices.size() + 3);  // a pass, and a message on each side
    for (const StageOp& op : order_) {
      if (op.kind == StageOp::Kind::kForward) {
        EmitForward(op.micro_batch);
      } else {
        EmitBackward(op.micro_batch);
      }
    }
  }

  void EmitForward(int i) {
    const bool trains = purpose_ == Purpose::kTrain;
    Instruction forward = Make(InstructionKind::kForward, Stream::kCompute, i);
    forward.blocks = plan_.units[program_.unit].blocks;
    forward.operands[0] = {.buffer = {BufferKind::kStash, i}, .fills = true, .releases = !trains};
    if (previous_ >= 0) {
      AddMessage(InstructionKind::kReceiveActivation, Stream::kReceiveActivation, i, previous_, BufferKind::kInput);
      forward.operands[1] = {.buffer = {BufferKind::kInput, i}, .releases = !trains};
    }
    if (next_ >= 0) forward.operands[2] = {.buffer = {BufferKind::kOutput, i}, .fills = true};
    last_forward_ = Add(forward);
    if (next_ >= 0) AddMessage(InstructionKind::kSendActivation, Stream::kSendActivation, i, next_, BufferKind::kOutput);
  }

  void EmitBackward(int i) {
    if (next_ >= 0) {
      AddMessage(InstructionKind::kReceiveGradient, Stream::kReceiveGradient, i, next_, BufferKind::kOutputGradient);
    }
    const BlockRange all = plan_.units[program_.unit].blocks;
    int end = all.end;
    pieces_.clear();
    FindPieces(i);
    for (const int first : first_blocks_) {
      const bool begins = end == all.end, ends = first == all.first;
      Instruction piece = Make(InstructionKind::kBackward, Stream::kCompute, i);
      piece.blocks = {first, end};
      piece.operands[0] = {.buffer = {BufferKind::kStash, i}, .releases = ends};
      if (previous_ >= 0) {
        piece.operands[1] = {.buffer = {BufferKind::kInput, i}, .releases = ends};
        piece.operands[2] = {.buffer = {BufferKind::kInputGradient, i}, .fills = begins, .writes = true};
      }
      if (next_ >= 0 && begins) piece.operands[3] = {.buffer = {BufferKind::kOutputGradient, i}, .releases = true};
      pieces_.push_back({first, Add(piece)});
      end = first;
    }
    if (previous_ >= 0) {
      AddMessage(InstructionKind::kSendGradient, Stream::kSendGradient, i, previous_, BufferKind::kInputGradient);
    }
  }

  // The i-th backward in one piece; the last one is cut where a slice is complete, so that its reduction need not wait for the
  // rest. In the order in which backward goes through them.
  void FindPieces(int i) {
    const BlockRange all = plan_.units[program_.unit].blocks;
    std::vector<int>& firsts = first_blocks_;
    firsts.clear();
    if (i == program_.position.micro_batches - 1) {
      for (const GradientSlice& slice : program_.slices) {
        const int block = slice.completed_by, end = firsts.empty() ? all.end : firsts.back();
        if (block > all.first && block < end) firsts.push_back(block);
      }
    }
    firsts.push_back(all.first);
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
    scalars.bytes = {int64_t{8} * ScalarCount(shape_.model)};
    scalars.waits_for[0] = purpose_ == Purpose::kTrain ? last_compute_ : last_forward_;
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

  void AddMessage(InstructionKind kind, Stream stream, int i, int peer, BufferKind buffer) {
    Instruction message = Make(kind, stream, i);
    message.peer = peer;
    message.bytes = {int64_t{4} * program_.position.micro_batch_sequences * shape_.sequence * shape_.model.hidden};
    message.operands[0] = {.buffer = {buffer, i}, .fills = IsReceive(kind), .releases = !IsReceive(kind)};
    Add(message);
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
  std::vector<int> first_blocks_;  // of the newest backward's pieces
  // Of the newest backward, from the last block to the first.
  struct Piece {
    int first_block;
    int instruction;
  };
  std::vector<Piece> pieces_;
  int last_forward_ = -1, last_reduce_ = -1, last_compute_ = -1;
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

int ScalarCount(const ModelConfig& config) { return SegmentCount(config) + 2; }

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

bool IsReceive(InstructionKind kind) {
  return kind == InstructionKind::kReceiveActivation || kind == InstructionKind::kReceiveGradient;
}

int Instruction::BufferOf(BufferKind buffer_kind) const {
  for (const Operand& operand : operands) {
    if (operand.buffer.index >= 0 && operand.buffer.kind == buffer_kind) return operand.buffer.index;
  }
  return -1;
}

int BufferCounts::of(BufferKind kind) const { return const_cast<BufferCounts&>(*this).of(kind); }

int& BufferCounts::of(BufferKind kind) {
  switch (kind) {
    case BufferKind::kStash: return stash;
    case BufferKind::kInput: return input;
    case BufferKind::kOutput: return output;
    case BufferKind::kInputGradient: return input_gradient;
    case BufferKind::kOutputGradient: return output_gradient;
  }
  return stash;
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
