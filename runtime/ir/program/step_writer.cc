#include "runtime/ir/program/step_writer.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/row_counts.h"

namespace medley {
namespace {

// What travels has its other end at the stage before, or at the next one; there may be one unit at both.
bool IsBefore(BufferKind kind) { return kind == BufferKind::kInput || kind == BufferKind::kInputGradient; }

// What a message carries, and the stream that it goes on.
struct MessageWay {
  BufferKind carried;
  Stream stream;
};
MessageWay WayOf(InstructionKind message) {
  switch (message) {
    case InstructionKind::kReceiveActivation:
      return {BufferKind::kInput, Stream::kReceiveActivation};
    case InstructionKind::kSendActivation:
      return {BufferKind::kOutput, Stream::kSendActivation};
    case InstructionKind::kReceiveGradient:
      return {BufferKind::kOutputGradient, Stream::kReceiveGradient};
    default:
      return {BufferKind::kInputGradient, Stream::kSendGradient};
  }
}

}  // namespace

StepWriter::StepWriter(const Plan& plan, Rank rank, const TrainingShape& shape, Purpose purpose)
    : plan_(plan),
      shape_(shape),
      purpose_(purpose),
      place_(PlaceOf(plan, rank)),
      unit_(plan.units[place_.unit]) {
  program_.rank = rank;
  program_.unit = place_.unit;
  program_.visits = VisitsOf(plan, place_.unit);
  for (const Visit& visit : program_.visits) {
    first_content_.push_back(contents_);
    contents_ += visit.micro_batches;
  }
}

void StepWriter::TakeSlices() {
  const auto begin_with = [&](const std::vector<GradientSlice>& slices) {
    for (const GradientSlice& slice : slices) {
      if (slice.first_segment != kTiedSegment) slice_begins_.push_back({slice.completed_by, slice.on_peers});
    }
  };
  program_.slices = SlicesOf(plan_, program_.rank, shape_.model);
  begin_with(program_.slices);
  if (ShareKeys(unit_, shape_.model)) {
    for (const Rank rank : RanksOf(plan_, program_.unit)) {
      if (rank != program_.rank) begin_with(SlicesOf(plan_, rank, shape_.model));
    }
  }
  std::sort(slice_begins_.begin(), slice_begins_.end(), std::greater<>());
  slice_begins_.erase(std::unique(slice_begins_.begin(), slice_begins_.end()), slice_begins_.end());
}

Operand StepWriter::Use(BufferKind kind, int i) const {
  return {.buffer = {kind, ContentOf(visit_, i), IsOfChunk(kind) ? at().chunk : 0},
          .dtype = Travels(kind) ? TypeAcross(OtherEnd(kind)) : Dtype::kF32};
}

Operand StepWriter::Fill(BufferKind kind, int i) const {
  Operand operand = Use(kind, i);
  operand.fills = true;
  return operand;
}

Operand StepWriter::Write(BufferKind kind, int i, bool fills) const {
  Operand operand = Use(kind, i);
  operand.fills = fills;
  operand.writes = true;
  return operand;
}

Operand StepWriter::Read(BufferKind kind, int i, bool releases) const {
  Operand operand = Use(kind, i);
  operand.releases = releases;
  return operand;
}

Instruction StepWriter::Make(InstructionKind kind, Stream stream, int i) const {
  Instruction instruction{.kind = kind, .stream = stream};
  if (i < 0) return instruction;
  instruction.visit = visit_;
  instruction.chunk = at().chunk;
  instruction.micro_batch = at().first_micro_batch + i;
  return instruction;
}

Instruction StepWriter::MakeOfSlice(InstructionKind kind, int slice) const {
  Instruction instruction = Make(kind, Stream::kCollective, -1);
  instruction.slice = slice;
  instruction.bytes = {program_.slices[slice].elements * SizeOf(Dtype::kF32).value};
  return instruction;
}

int StepWriter::Add(const Instruction& instruction) {
  program_.instructions.push_back(instruction);
  return static_cast<int>(program_.instructions.size()) - 1;
}

void StepWriter::OpenWindows() {
  if (!windows_here()) return;
  std::optional<OptimizerShard> optimizer;
  if (plan_.shards_optimizer) optimizer = OptimizerShardOf(plan_, program_.rank, shape_.model);
  layer_elements_ = LayerElementsOf(LocalModel(shape_.model, ShareOf(plan_, program_.rank, shape_.model)),
                                    unit_.chunks, optimizer.has_value() ? &*optimizer : nullptr);
  windows_.emplace(unit_, layer_elements_, program_);
}

int StepWriter::AddWithWindows(const Instruction& instruction) {
  const int added = Add(instruction);
  if (windows_here()) windows_->Added(added);
  return added;
}

int StepWriter::AddPiece(Instruction piece) {
  using Use = LayerWindows::Use;
  const BlockId layer = piece.blocks.first;
  if (unit_.parameters_have_windows() && shape_.model.is_layer(layer))
    windows_->Need(piece, BufferKind::kParameterWindow, layer, Use::kRead);
  if (HasWindow(layer) && IsGradient(piece.kind))
    windows_->Need(piece, BufferKind::kGradientWindow, layer, Use::kChange);
  return AddWithWindows(piece);
}

void StepWriter::AddMessages(InstructionKind kind, int i) {
  const bool receives = IsReceive(kind);
  const auto [carried, stream] = WayOf(kind);
  const UnitId other = OtherEnd(carried);
  const int other_parts = static_cast<int>(plan_.units[other].devices.size());
  const std::vector<int64_t> own_ends = RowEnds(Rows(), program_.buffers.ranks),
                             other_ends = RowEnds(Rows(), other_parts);
  const auto first_of = [](const std::vector<int64_t>& ends, int part) {
    return part == 0 ? int64_t{0} : ends[part - 1];
  };
  const int64_t first_held = OwnRows(program_.buffers, Rows()).first;
  const Rank first_peer = FirstRankOf(plan_, other);
  const size_t first_message = program_.instructions.size();
  for (int part = 0; part < other_parts; ++part) {
    const int64_t first = std::max(first_of(own_ends, place_.member), first_of(other_ends, part)),
                  end = std::min(own_ends[place_.member], other_ends[part]);
    if (first >= end) continue;
    Instruction message = Make(kind, stream, i);
    message.peer = first_peer + part;
    message.boundary = IsBefore(carried) ? StageId(at().stage - 1) : at().stage;
    message.offset = {BytesOfRow(carried) * (first - first_held)};
    message.bytes = {BytesOfRow(carried) * (end - first)};
    message.operands[0] = Use(carried, i);
    message.operands[0].writes = receives;
    Add(message);
  }
  (receives ? program_.instructions[first_message].operands[0].fills
            : program_.instructions.back().operands[0].releases) = true;
}

void StepWriter::AddGather(InstructionKind kind, BufferKind buffer, int i) {
  if (program_.buffers.ranks < 2 || program_.buffers.sequence_parallel) return;
  Instruction gather = Make(kind, Stream::kCompute, i);
  gather.operands[0] = Write(buffer, i, false);
  gather.bytes = {BytesOfRow(buffer) * Rows()};
  Add(gather);
}

UnitId StepWriter::OtherEnd(BufferKind kind) const { return IsBefore(kind) ? at().previous : at().next; }

int64_t StepWriter::BytesOfRow(BufferKind kind) const {
  return SizeOf(TypeAcross(OtherEnd(kind))).value * shape_.model.hidden;
}

}  // namespace medley
