#include "runtime/ir/program/step_end.h"

#include <algorithm>

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/parameters.h"

namespace medley {

void StepEnd::Complete(BlockRange blocks, int added) {
  if (NormElements(writer_.shape().model, blocks) > 0 && writer_.program().buffers.sequence_parallel)
    added = AddJoin(blocks);
  if (writer_.HasWindow(blocks.first)) {
    if (IsShared(blocks.first)) {
      added = writer_.windows().Store(BufferKind::kGradientWindow, blocks.first);
    } else {
      AddNormOfLayer(blocks.first);
    }
  }
  pieces_.push_back({blocks, added});
}

bool StepEnd::IsShared(BlockId block) const {
  const ModelConfig& model = writer_.shape().model;
  return HoldersOf(writer_.plan(), model, SegmentOfBlock(block)).size() > 1 ||
         ShareKeys(writer_.unit(), model);
}

void StepEnd::AddNormOfLayer(BlockId block) {
  Instruction norm = writer_.Make(InstructionKind::kNormGradients, Stream::kCompute, -1);
  norm.blocks = {block, block + 1};
  writer_.windows().Need(norm, BufferKind::kGradientWindow, block, LayerWindows::Use::kRead);
  writer_.AddWithWindows(norm);
}

// The norms' gradients are complete once the weights' are.
int StepEnd::AddJoin(BlockRange blocks) {
  Instruction join = writer_.Make(InstructionKind::kJoinGradients, Stream::kCompute, -1);
  join.visit = writer_.visit();
  join.chunk = writer_.at().chunk;
  join.blocks = blocks;
  join.bytes = {NormElements(writer_.shape().model, blocks) * SizeOf(Dtype::kF32).value};
  if (writer_.HasWindow(blocks.first))
    writer_.windows().Need(join, BufferKind::kGradientWindow, blocks.first, LayerWindows::Use::kChange);
  return writer_.AddWithWindows(join);
}

// The instruction that the gradients of `block` are complete behind; -1: no chunk has it.
int StepEnd::CompleteBehind(BlockId block) const {
  const auto piece =
      std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& p) { return p.blocks.contains(block); });
  return piece == pieces_.end() ? -1 : piece->instruction;
}

void StepEnd::AddReductions() {
  const std::vector<GradientSlice>& slices = writer_.program().slices;
  int last_reduce = -1, last_scatter = -1;
  for (int s = 0; s < static_cast<int>(slices.size()); ++s) {
    const GradientSlice& slice = slices[s];
    if (slice.on_peers) {
      // They have been scattered, one after another.
      last_scatter = std::max(last_scatter, CompleteBehind(slice.completed_by));
      continue;
    }
    Instruction reduce =
        writer_.MakeOfSlice(writer_.plan().shards_optimizer ? InstructionKind::kScatterGradients
                                                            : InstructionKind::kReduceGradients,
                            s);
    reduce.waits_for[0] = CompleteBehind(slice.completed_by);
    // A unit with both ends of a model may go through them for different routes.
    if (slice.first_segment == kTiedSegment) {
      reduce.waits_for[0] = std::max(reduce.waits_for[0], CompleteBehind(writer_.shape().model.head_block()));
    }
    // The pieces of a slice end in the order of its blocks.
    last_reduce = writer_.Add(reduce);
    for (SegmentId segment = slice.first_segment; segment < slice.end_segment; ++segment) {
      if (slice.in_host_memory && segment != kTiedSegment)
        writer_.windows().HomeChanged(BufferKind::kGradientWindow, BlockOfSegment(segment), last_reduce);
    }
  }
  if (writer_.unit().lives_on_host()) AddNormsOfSharedLayers();
  Instruction norm = writer_.Make(InstructionKind::kNormGradients, Stream::kCompute, -1);
  norm.waits_for[0] = last_reduce;  // the compute stream keeps it behind the backwards
  norm.WaitFor(last_scatter);
  last_compute_ = writer_.Add(norm);
}

// Of their sums, where this unit's ranks answer for some of them.
void StepEnd::AddNormsOfSharedLayers() {
  const Plan& plan = writer_.plan();
  writer_.ForEachLayer([&](BlockId block) {
    const std::vector<UnitId> holders = HoldersOf(plan, writer_.shape().model, SegmentOfBlock(block));
    const bool answers = plan.shards_optimizer || holders.front() == writer_.program().unit;
    if (IsShared(block) && answers) AddNormOfLayer(block);
  });
}

void StepEnd::AddEnd() {
  Instruction scalars = writer_.Make(InstructionKind::kReduceScalars, Stream::kCollective, -1);
  scalars.bytes = {int64_t{8} * ScalarCount(writer_.shape().model)};
  scalars.waits_for[0] = writer_.trains() ? last_compute_ : last_forward_;
  const int reduced = writer_.Add(scalars);
  if (!writer_.trains()) return;
  Instruction update = writer_.Make(InstructionKind::kUpdateParameters, Stream::kCompute, -1);
  update.waits_for[0] = reduced;
  writer_.Add(update);
  if (!writer_.unit().lives_on_host()) return;
  writer_.ForEachLayer([&](BlockId block) { AddUpdateOfLayer(block); });
  writer_.windows().StoreAll();
}

void StepEnd::AddUpdateOfLayer(BlockId block) {
  using Use = LayerWindows::Use;
  LayerWindows& windows = writer_.windows();
  Instruction update = writer_.Make(InstructionKind::kUpdateParameters, Stream::kCompute, -1);
  update.blocks = {block, block + 1};
  windows.Need(update, BufferKind::kParameterWindow, block, Use::kChange);
  windows.Need(update, BufferKind::kGradientWindow, block, Use::kRead);
  windows.Need(update, BufferKind::kMomentWindow, block, Use::kChange);
  writer_.AddWithWindows(update);
  windows.Drop(BufferKind::kGradientWindow, block);
}

}  // namespace medley
