#include "runtime/program/memory.h"

#include <algorithm>

#include "runtime/model/parameters.h"

namespace medley {

int64_t StashElements(const ModelConfig& c, int block, int64_t rows) {
  const int64_t C = c.hidden, statistics = c.is_llama() ? 1 : 2;  // of a norm: rstd, and LayerNorm's mean
  if (block == c.embedding_block()) return rows * (1 + C);        // tokens, output
  // Targets, norm; its pass is all in backward.
  if (block == c.head_block()) return rows * (1 + statistics);
  // Two norms, qkv, attention output and its log-sum-exp, residual after it, MLP before its activation,
  // output.
  return rows *
         (2 * statistics + c.joined_width() + c.attention_width() + c.heads + C + c.expanded_width() + C);
}

int64_t WorkspaceElements(const ModelConfig& c, absl::Span<const BlockRange> chunks, int sequence,
                          int64_t rows) {
  const int64_t C = c.hidden, F = c.feed_forward;
  const bool has_layer = std::any_of(chunks.begin(), chunks.end(),
                                     [&](const BlockRange& b) { return b.first <= c.layers && b.end > 1; });
  // Normed input, its gradient, gradient of the residual stream.
  if (!has_layer) return rows * 3 * C;
  // A layer adds the activation's output and gradients on both sides of it, and dqkv; GPT-2's GELU gradient
  // is in place.
  const int64_t activation = c.is_llama() ? 2 * F + c.expanded_width() : 2 * F;
  const int64_t rotary = c.is_llama() ? int64_t{sequence} * c.size_of_head() : 0;  // cosines and sines
  return rows * (2 * C + std::max(C, c.attention_width()) + activation + c.joined_width()) + rotary;
}

Bytes ScalarBytes(const ModelConfig& config, absl::Span<const BlockRange> chunks) {
  return {8 * (1 + static_cast<int64_t>(SegmentsOf(config, chunks).size()))};
}

RankMemory MemoryOf(const ModelConfig& local, int sequence, absl::Span<const BlockRange> chunks,
                    int micro_batch_sequences, const BufferCounts& buffers) {
  const int64_t rows = int64_t{micro_batch_sequences} * sequence;
  int64_t parameters = 0, stash = 0;
  for (const int segment : SegmentsOf(local, chunks)) parameters += SegmentElements(local, segment);
  for (size_t c = 0; c < chunks.size(); ++c) {
    for (int block = chunks[c].first; block < chunks[c].end; ++block)
      stash += buffers.stash[c] * StashElements(local, block, rows);
  }
  const int64_t travelling =
      buffers.input + buffers.output + buffers.input_gradient + buffers.output_gradient;
  return {
      .parameters = {4 * parameters},
      .gradients = {4 * parameters},
      .optimizer = {8 * parameters},
      .activations = {4 * stash},
      .boundaries = {4 * rows * local.hidden * travelling},
      .workspace = Bytes{4 * WorkspaceElements(local, chunks, sequence, rows)} + ScalarBytes(local, chunks)};
}

int LargestMicroBatch(const Visits& visits) {
  int largest = 0;
  for (const Visit& visit : visits) largest = std::max(largest, visit.micro_batch_sequences);
  return largest;
}

RankMemory MemoryOfRank(const Plan& plan, Rank rank, const TrainingShape& shape) {
  return MemoryOfProgram(plan, CompileStep(plan, rank, shape, Purpose::kTrain), shape);
}

RankMemory MemoryOfProgram(const Plan& plan, const StepProgram& program, const TrainingShape& shape) {
  const ModelConfig local = LocalModel(shape.model, ShareOf(plan, program.rank, shape.model));
  return MemoryOf(local, shape.sequence, plan.units[program.unit].chunks, LargestMicroBatch(program.visits),
                  program.buffers);
}

}  // namespace medley
