#include "runtime/program/memory.h"

#include "runtime/model/parameters.h"

namespace medley {

int64_t StashElements(const ModelConfig& c, int block, int64_t rows) {
  const int64_t C = c.hidden, F = c.feed_forward, H = c.heads;
  if (block == c.embedding_block()) return rows * (1 + C);  // tokens, output
  if (block == c.head_block()) return rows * (1 + 2 + C);   // targets, mean and rstd, gradient of the normed input
  // Two norms' mean and rstd, qkv, attention output and its log-sum-exp, residual after it, MLP before GELU, output.
  return rows * (4 + 3 * C + C + H + C + F + C);
}

int64_t WorkspaceElements(const ModelConfig& c, BlockRange blocks, int64_t rows) {
  const int64_t C = c.hidden, F = c.feed_forward;
  const bool has_layer = blocks.first <= c.layers && blocks.end > 1;
  // Normed input, its gradient, gradient of the residual stream; a layer adds GELU's output and gradient, and dqkv.
  return rows * (3 * C + (has_layer ? 2 * F + 3 * C : 0));
}

UnitMemory MemoryOf(const TrainingShape& shape, BlockRange blocks, int micro_batch_sequences, const SlotCounts& slots) {
  const ModelConfig& config = shape.model;
  const int64_t rows = int64_t{micro_batch_sequences} * shape.sequence;
  int64_t parameters = 0, stash = 0;
  for (const int segment : SegmentsOf(config, blocks)) parameters += SegmentElements(config, segment);
  for (int block = blocks.first; block < blocks.end; ++block) stash += StashElements(config, block, rows);
  const int64_t travelling = slots.input + slots.output + slots.input_gradient + slots.output_gradient;
  return {.parameters = {4 * parameters},
          .gradients = {4 * parameters},
          .optimizer = {8 * parameters},
          .activations = {4 * stash * slots.stash},
          .boundaries = {4 * rows * config.hidden * travelling},
          .workspace = Bytes{4 * WorkspaceElements(config, blocks, rows)} + kScalarBytes};
}

}  // namespace medley
