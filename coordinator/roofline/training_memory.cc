#include "coordinator/roofline/training_memory.h"

#include <algorithm>

#include "coordinator/roofline/block_work.h"

namespace medley {
namespace {

// Layers times micro-batches of them under way on a stage: what one-forward-one-backward has begun and not ended.
double LayersKept(const TrainingRun& run, int stage) {
  double layers = 0;
  for (int c = 0; c < run.chunks_per_stage; ++c) layers += run.LayersOfChunk(c * run.stages + stage);
  const int micro_batches = run.MicroBatches();
  if (run.schedule == Schedule::kGPipe) return layers * micro_batches;
  if (run.chunks_per_stage == 1) return layers * std::min(micro_batches, run.stages - stage);
  // Forwards of chunks before the first backward: two for each stage behind, and a group for every other chunk.
  const int chunks = 2 * (run.stages - stage - 1) + (run.chunks_per_stage - 1) * run.stages + 1;
  return layers / run.chunks_per_stage * std::min(chunks, micro_batches * run.chunks_per_stage);
}

}  // namespace

double KeptBytesOfLayer(const TrainingRun& run) {
  const ModelConfig& model = run.shape.model;
  const double stream = run.Rows() * model.hidden, ranks = run.ranks;
  const double of_all_rows = run.sequence_parallel ? 1 / ranks : 1;
  if (run.recompute == Recompute::kLayers) return 2 * stream * of_all_rows;
  double bytes = stream * (10 * of_all_rows + 24 / ranks);
  if (!run.fused_attention && run.recompute == Recompute::kNone) {
    bytes += 5.0 * model.heads * run.shape.sequence * run.Rows() / ranks;
  }
  return bytes;
}

StageMemory MemoryOfStage(const TrainingRun& run, int stage) {
  StageMemory memory;
  memory.parameters = StageParameters(run, stage);
  const bool last = stage == run.stages - 1;
  memory.kept_bytes = LayersKept(run, stage) * KeptBytesOfLayer(run);
  if (run.recompute == Recompute::kLayers) {
    // One layer is made again at a time.
    TrainingRun whole = run;
    whole.recompute = Recompute::kNone;
    memory.kept_bytes += KeptBytesOfLayer(whole);
  }
  // In 16 bits, in 32, and their gradient.
  if (last) memory.logits_bytes = 10 * run.Rows() * run.shape.model.vocabulary / run.ranks;
  return memory;
}

double MemoryBytes(const Calibration& calibration, const TrainingRun& run) {
  double most = 0;
  for (int stage = 0; stage < run.stages; ++stage) {
    const StageMemory memory = MemoryOfStage(run, stage);
    most = std::max(most, memory.parameters * calibration.state_bytes_per_parameter +
                              (memory.kept_bytes + memory.logits_bytes) * calibration.kept_factor);
  }
  return most + calibration.reserved_bytes;
}

}  // namespace medley
