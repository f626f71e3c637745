#include "runtime/program/memory.h"

#include <algorithm>

#include "runtime/model/parameters.h"

namespace medley {

int64_t StashElements(const ModelConfig& c, int block, int64_t rows) {
  const int64_t C = c.hidden, statistics = c.is_llama() ? 1 : 2;  // of a norm: rstd, and LayerNorm's mean
  if (block == c.embedding_block()) return rows * (1 + C);          // tokens, output
  if (block == c.head_block()) return rows * (1 + statistics + C);  // targets, norm, gradient of the normed input
  // Two norms, qkv, attention output and its log-sum-exp, residual after it, MLP before its activation, output.
  return rows * (2 * statistics + c.joined_width() + c.attention_width() + c.heads + C + c.expanded_width() + C);
}

int64_t WorkspaceElements(const ModelConfig& c, BlockRange blocks, int sequence, int64_t rows) {
  const int64_t C = c.hidden, F = c.feed_forward;
  const bool has_layer = blocks.first <= c.layers && blocks.end > 1;
  // Normed input, its gradient, gradient of the residual stream.
  if (!has_layer) return rows * 3 * C;
  // A layer adds the activation's output and gradients on both sides of it, and dqkv; GPT-2's GELU gradient is in place.
  const int64_t activation = c.is_llama() ? 2 * F + c.expanded_width() : 2 * F;
  const int64_t rotary = c.is_llama() ? int64_t{sequence} * c.size_of_head() : 0;  // cosines and sines
  return rows * (2 * C + std::max(C, c.attention_width()) + activation + c.joined_width()) + rotary;
}

UnitMemory MemoryOf(const TrainingShape& shape, BlockRange blocks, int micro_batch_sequences, const BufferCounts& buffers) {
  const ModelConfig& config = shape.model;
  const int64_t rows = int64_t{micro_batch_sequences} * shape.sequence;
  int64_t parameters = 0, stash = 0;
  for (const int segment : SegmentsOf(config, blocks)) parameters += SegmentElements(config, segment);
  for (int block = blocks.first; block < blocks.end; ++block) stash += StashElements(config, block, rows);
  const int64_t travelling = buffers.input + buffers.output + buffers.input_gradient + buffers.output_gradient;
  return {.parameters = {4 * parameters},
          .gradients = {4 * parameters},
          .optimizer = {8 * parameters},
          .activations = {4 * stash * buffers.stash},
          .boundaries = {4 * rows * config.hidden * travelling},
          .workspace = Bytes{4 * WorkspaceElements(config, blocks, shape.sequence, rows)} + kScalarBytes};
}

UnitMemory MemoryOfUnit(const Plan& plan, int unit, const TrainingShape& shape) {
  const StepProgram program = CompileStep(plan, unit, shape, Purpose::kTrain);
  return MemoryOf(shape, plan.units[unit].blocks, program.position.micro_batch_sequences, program.buffers);
}

}  // namespace medley
