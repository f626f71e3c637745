#include "runtime/ir/program/memory.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/layer_windows.h"

namespace medley {

Bytes ScalarBytes(const ModelConfig& config, absl::Span<const BlockRange> chunks, int64_t norm_runs) {
  const int64_t most = kMostNormRuns * static_cast<int64_t>(SegmentsOf(config, chunks).size());
  return {8 * (1 + std::max(most, norm_runs))};
}

RankMemory MemoryOf(const ModelConfig& local, int sequence, absl::Span<const BlockRange> chunks,
                    int micro_batch_sequences, const BufferCounts& buffers, const OptimizerShard* optimizer) {
  const RowCounts rows = RowCountsOf(buffers, int64_t{micro_batch_sequences} * sequence);
  const Dtype type = buffers.activations;
  int64_t parameters = 0;
  for (const SegmentId segment : SegmentsOf(local, chunks)) parameters += SegmentElements(local, segment);
  int64_t gradients = parameters;
  int64_t moments = 2 * (optimizer == nullptr ? parameters : optimizer->elements());
  int64_t multiplied = MultipliedElements(local, chunks);
  int64_t in_host_memory = 0;  // f32
  if (buffers.windows > 0) {
    const LayerElements layers = LayerElementsOf(local, chunks, optimizer);
    const int64_t of_layers = layers.parameters * static_cast<int64_t>(layers.moments.size());
    const int64_t their_moments = std::accumulate(layers.moments.begin(), layers.moments.end(), int64_t{0});
    const int64_t in_windows = buffers.windows * layers.parameters - of_layers;
    const bool on_host = buffers.home == LayersHome::kHost;
    // What is kept of a layer that lives with its holders is as much of each part as of a moment.
    const int64_t kept = on_host ? 0 : their_moments / 2;
    gradients += in_windows + kept;
    if (buffers.home != LayersHome::kGradientsOnPeers) {
      parameters += in_windows + kept;
      multiplied += (buffers.windows - static_cast<int64_t>(layers.moments.size())) *
                    MultipliedElements(local, {{BlockOfLayer(0), BlockOfLayer(1)}});
    }
    if (on_host) {
      in_host_memory = 2 * of_layers + their_moments;
      moments += buffers.windows * layers.most_moments() - their_moments;
    }
  }
  Bytes activations, stashes_at_home;
  for (size_t c = 0; c < chunks.size(); ++c) {
    const Bytes stash = StashBytes(local, chunks[c], rows, type, buffers.recompute);
    activations += int64_t{buffers.stash[c]} * stash;
    stashes_at_home += int64_t{buffers.stash_home[c]} * stash;
    activations += int64_t{buffers.deferred[c]} * DeferredBytes(local, chunks[c], rows, type);
  }
  activations += int64_t{buffers.stream_gradient} * TensorBytes(rows.own * local.hidden, type);
  activations += int64_t{buffers.recomputed} * RecomputedBytes(local, rows, type, buffers.recompute);
  const int64_t travelling =
      buffers.input + buffers.output + buffers.input_gradient + buffers.output_gradient;
  const int64_t element = SizeOf(Dtype::kF32).value;  // of master weights, sums and optimizer state
  return {.parameters = {element * parameters},
          .gradients = {element * gradients},
          .optimizer = {element * moments},
          .activations = activations,
          .boundaries = travelling * TensorBytes(rows.own * local.hidden, type),
          .workspace = WorkspaceBytes(local, chunks, sequence, rows, type, buffers.ranks) +
                       ScalarBytes(local, chunks,
                                   optimizer == nullptr ? 0 : static_cast<int64_t>(optimizer->norms.size())),
          .logits = LogitsBytes(local, chunks, rows.all),
          .conversions = ConversionBytes(local, chunks, sequence, rows.all, type, buffers.narrowest),
          .host = Bytes{element * in_host_memory} + stashes_at_home,
          .multiplied = multiplied + RoundedElements(local, chunks, rows.all, type)};
}

bool Fits(const RankMemory& memory, const DeviceRoom& room) {
  return memory.total() <= room.LeftFor(memory.multiplied);
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

Bytes CollectiveBytes(const Plan& plan, const StepProgram& program, const TrainingShape& shape) {
  const ModelConfig local = LocalModel(shape.model, ShareOf(plan, program.rank, shape.model));
  const auto& chunks = plan.units[program.unit].chunks;
  const int64_t rows = int64_t{LargestMicroBatch(program.visits)} * shape.sequence;
  const auto scratch = [&](int ranks) {
    return WorkspaceBytes(local, chunks, shape.sequence, rows, program.buffers.activations, ranks);
  };
  int64_t norm_runs = 0;
  if (plan.shards_optimizer)
    norm_runs = static_cast<int64_t>(OptimizerShardOf(plan, program.rank, shape.model).norms.size());
  return scratch(program.buffers.ranks) - scratch(1) + ScalarBytes(local, chunks, norm_runs);
}

}  // namespace medley
