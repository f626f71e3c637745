#include "runtime/ir/program/memory.h"

#include <algorithm>
#include <optional>

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/parameters.h"

namespace medley {

Bytes ScalarBytes(const ModelConfig& config, absl::Span<const BlockRange> chunks, int64_t norm_runs) {
  const int64_t most = kMostNormRuns * static_cast<int64_t>(SegmentsOf(config, chunks).size());
  return {8 * (1 + std::max(most, norm_runs))};
}

RankMemory MemoryOf(const ModelConfig& local, int sequence, absl::Span<const BlockRange> chunks,
                    int micro_batch_sequences, const BufferCounts& buffers, const OptimizerShard* optimizer) {
  const int64_t rows = int64_t{micro_batch_sequences} * sequence;
  const Dtype type = buffers.activations;
  int64_t parameters = 0;
  for (const SegmentId segment : SegmentsOf(local, chunks)) parameters += SegmentElements(local, segment);
  Bytes activations;
  for (size_t c = 0; c < chunks.size(); ++c) {
    for (BlockId block = chunks[c].first; block < chunks[c].end; ++block)
      activations += int64_t{buffers.stash[c]} * StashBytes(local, block, rows, type, buffers.recompute);
    activations += int64_t{buffers.deferred[c]} * DeferredBytes(local, chunks[c], rows, type);
  }
  activations += int64_t{buffers.recomputed} * RecomputedBytes(local, rows, type, buffers.recompute);
  const int64_t travelling =
      buffers.input + buffers.output + buffers.input_gradient + buffers.output_gradient;
  const int64_t element = SizeOf(Dtype::kF32).value;  // of master weights, sums and optimizer state
  return {.parameters = {element * parameters},
          .gradients = {element * parameters},
          .optimizer = {2 * element * (optimizer == nullptr ? parameters : optimizer->elements())},
          .activations = activations,
          .boundaries = travelling * TensorBytes(rows * local.hidden, type),
          .workspace = WorkspaceBytes(local, chunks, sequence, rows, type, buffers.ranks) +
                       ScalarBytes(local, chunks,
                                   optimizer == nullptr ? 0 : static_cast<int64_t>(optimizer->norms.size())),
          .conversions = ConversionBytes(local, chunks, rows, type, buffers.narrowest)};
}

int64_t ParametersOf(const RankMemory& memory) { return memory.parameters.value / SizeOf(Dtype::kF32).value; }

bool Fits(const RankMemory& memory, const DeviceRoom& room) {
  return memory.total() <= room.LeftFor(ParametersOf(memory));
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
  std::optional<OptimizerShard> optimizer;
  if (plan.shards_optimizer) optimizer = OptimizerShardOf(plan, program.rank, shape.model);
  return MemoryOf(local, shape.sequence, plan.units[program.unit].chunks, LargestMicroBatch(program.visits),
                  program.buffers, optimizer.has_value() ? &*optimizer : nullptr);
}

}  // namespace medley
