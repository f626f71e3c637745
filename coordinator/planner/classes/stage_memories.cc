#include "coordinator/planner/classes/stage_memories.h"

#include <algorithm>

#include "runtime/ir/model/model_share.h"

namespace medley {
namespace {

// `memory` of something is to be that of as much and `more`, of which `with_next` has the first.
void Grow(RankMemory& memory, const RankMemory& with_next, int more) {
  for (Bytes RankMemory::*part :
       {&RankMemory::parameters, &RankMemory::gradients, &RankMemory::optimizer, &RankMemory::activations,
        &RankMemory::boundaries, &RankMemory::workspace, &RankMemory::logits, &RankMemory::conversions,
        &RankMemory::ahead, &RankMemory::host})
    memory.*part += more * (with_next.*part - memory.*part);
  for (Bytes WindowMemory::*part :
       {&WindowMemory::parameters, &WindowMemory::gradients, &WindowMemory::optimizer})
    memory.windows.*part += more * (with_next.windows.*part - memory.windows.*part);
  memory.multiplied += more * (with_next.multiplied - memory.multiplied);
}

// Such a stage of so many layers, of which the last `recomputed` are made again; 0: all, if any.
StageForm WithLayers(StageForm stage, int layers, int recomputed) {
  stage.layers = layers;
  stage.saving.recomputed_layers = recomputed;
  return stage;
}

}  // namespace

Schedule ScheduleByClasses(const PlanConstraints& constraints) {
  const std::vector<Schedule>& allowed = constraints.schedules;
  constexpr Schedule k1F1B = Schedule::kOneForwardOneBackward;
  return std::find(allowed.begin(), allowed.end(), k1F1B) != allowed.end() ? k1F1B : Schedule::kGPipe;
}

RankMemory StageMemories::Of(const StageKind& kind, const StageForm& stage, int routes) {
  // Of more than are under way at once 1F1B keeps no more.
  if (schedule_ != Schedule::kGPipe) routes = 1;
  const int sequences = routes * problem_.micro_batch_sizes[stage.size];
  const int micro_batches = std::max(1, (problem_.shape.global_batch_sequences + sequences - 1) / sequences);
  Line& line = LineOf(stage, kind, micro_batches);
  RankMemory memory = line.few;
  if (line.layers < stage.layers) {
    if (!line.next) line.next = InWindows(kind, WithLayers(stage, line.layers + 1, 0), micro_batches);
    Grow(memory, *line.next, stage.layers - line.layers);
  }
  const int again = stage.saving.recomputed_layers;
  if (again == 0 || again >= stage.layers) return memory;
  if (!line.but_one)
    line.but_one = InWindows(kind, WithLayers(stage, line.layers, line.layers - 1), micro_batches);
  memory.activations += (stage.layers - again) * (line.but_one->activations - line.few.activations);
  memory.host += (stage.layers - again) * (line.but_one->host - line.few.host);
  return memory;
}

StageMemories::Line& StageMemories::LineOf(const StageForm& stage, const StageKind& kind, int micro_batches) {
  const bool is_alone = stage.first && stage.from_end == 1;  // and has all layers
  const int few = is_alone ? stage.layers
                           : std::min(stage.layers, stage.saving.window_layers > 0 ? kFewestWindows + 3 : 2);
  const Key key = {kind.devices[0],
                   kind.degree,
                   stage.size,
                   few,
                   stage.first,
                   stage.from_end,
                   NumberOfWay(stage.saving),
                   stage.saving.window_layers,
                   micro_batches};
  const auto known = lines_.find(key);
  if (known != lines_.end()) return known->second;
  return lines_.emplace(key, Line{few, InWindows(kind, WithLayers(stage, few, 0), micro_batches), {}, {}})
      .first->second;
}

RankMemory StageMemories::InWindows(const StageKind& kind, const StageForm& stage, int micro_batches) {
  const int more = stage.saving.window_layers - kFewestWindows;
  if (more < 2) return Count(kind, stage, micro_batches);
  // Each window takes as much as the one before.
  StageForm fewest = stage, next = stage;
  fewest.saving.window_layers = kFewestWindows;
  next.saving.window_layers = kFewestWindows + 1;
  RankMemory memory = Count(kind, fewest, micro_batches);
  Grow(memory, Count(kind, next, micro_batches), more);
  return memory;
}

RankMemory StageMemories::Count(const StageKind& kind, const StageForm& stage, int micro_batches) {
  const ModelConfig& model = problem_.shape.model;
  const int sequences = problem_.micro_batch_sizes[stage.size];
  const Dtype stored = kind.cost.activations;
  BufferCounts buffers = buffers_.Of({.schedule = schedule_,
                                      .first = stage.first,
                                      .from_end = stage.from_end,
                                      .micro_batches = micro_batches,
                                      .activations = stored,
                                      .before = stored,
                                      .recompute = stage.saving.recompute,
                                      // Of more windows there are as many buffers.
                                      .windows = std::min(stage.saving.window_layers, kFewestWindows),
                                      .activations_home = stage.saving.activations_home});
  buffers.windows = stage.saving.window_layers;
  buffers.recomputed_layers = stage.saving.recomputed_layers;
  buffers.narrowest = stored;
  buffers.ranks = kind.degree;
  buffers.sequence_parallel = stage.saving.sequence_parallel;
  const BlockId first_block = stage.first ? model.embedding_block() : BlockOfLayer(0);
  const BlockId end = BlockOfLayer(0) + stage.layers;
  std::vector<BlockRange> chunk = {{first_block, end}};
  if (stage.from_end == 1) {
    // The last layers and the head; all blocks if it is the first stage, too.
    chunk = {{stage.first ? first_block : BlockId(model.head_block() - stage.layers), model.blocks()}};
  }
  return MemoryOf(LocalModel(model, kind.shares[0]), problem_.shape.sequence, chunk, sequences, buffers);
}

}  // namespace medley
