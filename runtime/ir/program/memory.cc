#include "runtime/ir/program/memory.h"

#include <algorithm>

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/parameters.h"

namespace medley {

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
    stash += buffers.deferred[c] * DeferredElements(local, chunks[c], rows);
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
