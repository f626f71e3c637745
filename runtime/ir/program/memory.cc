#include "runtime/ir/program/memory.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/alike_ranks.h"
#include "runtime/ir/program/layer_windows.h"

namespace medley {
namespace {

// What one buffer of each kind takes.
struct BufferSizes {
  // Of a rank with these buffers.
  BufferSizes(const ModelConfig& local, absl::Span<const BlockRange> chunks, const RowCounts& rows,
              const BufferCounts& buffers)
      : local(local),
        chunks(chunks),
        rows(rows),
        type(buffers.activations),
        made_again(LastLayersMadeAgain(local, chunks, buffers.recompute, buffers.recomputed_layers)),
        homed(HomedBlocksOf(buffers, local, chunks)) {}

  const ModelConfig& local;
  absl::Span<const BlockRange> chunks;
  RowCounts rows;
  Dtype type;
  LayersMadeAgain made_again;
  HomedBlocks homed;

  Bytes Of(BufferKind kind, int chunk) const {
    switch (kind) {
      case BufferKind::kStash:
        return StashBytes(local, homed.StayingOf(chunks[chunk]), rows, type, made_again);
      case BufferKind::kLeavingStash:
      case BufferKind::kStashHome:
        return StashBytes(local, homed.Of(chunks[chunk]), rows, type, made_again);
      case BufferKind::kDeferred:
        return DeferredBytes(local, chunks[chunk], rows, type);
      case BufferKind::kRecomputed:
        return RecomputedBytes(local, rows, type, made_again.what);
      case BufferKind::kParameterWindow:
      case BufferKind::kGradientWindow:
      case BufferKind::kMomentWindow:
        return {};
      case BufferKind::kStreamGradient:
      case BufferKind::kInput:
      case BufferKind::kOutput:
      case BufferKind::kInputGradient:
      case BufferKind::kOutputGradient:
        return TensorBytes(rows.own * local.hidden, type);
    }
    return {};
  }
};

}  // namespace

Bytes ScalarBytes(const ModelConfig& config, absl::Span<const BlockRange> chunks, int64_t norm_runs) {
  const int64_t most = kMostNormRuns * static_cast<int64_t>(SegmentsOf(config, chunks).size());
  return {8 * (1 + std::max(most, norm_runs))};
}

int64_t AdvanceScratchElements(int64_t parameters) {
  constexpr int64_t kMostAtOnce = int64_t{4} << 20;
  return 2 * std::min(parameters, kMostAtOnce);
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
  int64_t parameter_windows = 0, gradient_windows = 0, moment_windows = 0;
  if (buffers.windows > 0) {
    const LayerElements layers = LayerElementsOf(local, chunks, optimizer);
    const int64_t of_layers = layers.parameters * static_cast<int64_t>(layers.moments.size());
    const int64_t their_moments = std::accumulate(layers.moments.begin(), layers.moments.end(), int64_t{0});
    const bool on_host = buffers.home == LayersHome::kHost;
    // What is kept of a layer that lives with its holders is as much of each part as of a moment.
    const int64_t kept = on_host ? 0 : their_moments / 2;
    gradient_windows = buffers.windows * layers.parameters;
    gradients += gradient_windows + kept - of_layers;
    if (buffers.home != LayersHome::kGradientsOnPeers) {
      parameter_windows = gradient_windows;
      parameters += parameter_windows + kept - of_layers;
      multiplied += (buffers.windows - static_cast<int64_t>(layers.moments.size())) *
                    MultipliedElements(local, {{BlockOfLayer(0), BlockOfLayer(1)}});
    }
    if (on_host) {
      in_host_memory = 2 * of_layers + their_moments;
      moment_windows = buffers.windows * layers.most_moments();
      moments += moment_windows - their_moments;
    }
  }
  const int64_t kept_for_update = buffers.goes_ahead ? parameters + AdvanceScratchElements(parameters) : 0;
  const BufferSizes sizes(local, chunks, rows, buffers);
  Bytes activations, boundaries, stashes_at_home;
  for (int k = 0; k < kBufferKinds; ++k) {
    const BufferKind kind = static_cast<BufferKind>(k);
    if (IsWindow(kind)) continue;
    Bytes& sum = Travels(kind) ? boundaries : kind == BufferKind::kStashHome ? stashes_at_home : activations;
    const int pools = IsOfChunk(kind) ? static_cast<int>(chunks.size()) : 1;
    for (int chunk = 0; chunk < pools; ++chunk) {
      const int64_t count = buffers.of(kind, chunk);
      if (count > 0) sum += count * sizes.Of(kind, chunk);
    }
  }
  const int64_t element = SizeOf(Dtype::kF32).value;  // of master weights, sums and optimizer state
  return {.parameters = {element * parameters},
          .gradients = {element * gradients},
          .optimizer = {element * (moments + kept_for_update)},
          .activations = activations,
          .boundaries = boundaries,
          .workspace = WorkspaceBytes(local, chunks, sequence, rows, type, buffers.ranks) +
                       ScalarBytes(local, chunks,
                                   optimizer == nullptr ? 0 : static_cast<int64_t>(optimizer->norms.size())),
          .logits = LogitsBytes(local, chunks, rows.all, type),
          .conversions = ConversionBytes(local, chunks, sequence, rows.all, type, buffers.narrowest),
          .ahead = {element * kept_for_update},
          .windows = {.parameters = {element * parameter_windows},
                      .gradients = {element * gradient_windows},
                      .optimizer = {element * moment_windows}},
          .host = Bytes{element * in_host_memory} + stashes_at_home,
          .multiplied = multiplied + RoundedElements(local, chunks, rows.all, type),
          .micro_batch_sequences = micro_batch_sequences};
}

LargestBuffer LargestBufferOf(const RankMemory& memory) {
  const Bytes moments = memory.optimizer - memory.ahead;
  const LargestBuffer buffers[] = {{"parameters", memory.parameters},
                                   {"gradients", memory.gradients},
                                   {"one of the optimizer's moments", {moments.value / 2}},
                                   {"parameters as they were before the update", memory.ahead},
                                   {"activations", memory.activations},
                                   {"boundaries", memory.boundaries},
                                   {"workspace", memory.workspace},
                                   {"conversions and logits", memory.conversions + memory.logits}};
  LargestBuffer largest;
  for (const LargestBuffer& buffer : buffers) {
    if (buffer.bytes > largest.bytes) largest = buffer;
  }
  return largest;
}

Bytes BufferExcess(const RankMemory& memory, const DeviceRoom& room) {
  if (room.largest_buffer == Bytes{0}) return {};
  return std::max(Bytes{}, LargestBufferOf(memory).bytes - room.largest_buffer);
}

Bytes LeftFor(const RankMemory& memory, const DeviceRoom& room) {
  const Bytes left = room.LeftFor(memory.multiplied, memory.micro_batch_sequences),
              excess = BufferExcess(memory, room);
  return excess > Bytes{0} ? std::min(left, memory.total() - excess) : left;
}

bool Fits(const RankMemory& memory, const DeviceRoom& room) {
  return memory.total() <= LeftFor(memory, room);
}

int LargestMicroBatch(const Visits& visits) {
  int largest = 0;
  for (const Visit& visit : visits) largest = std::max(largest, visit.micro_batch_sequences);
  return largest;
}

RankMemory MemoryOfRank(const Plan& plan, Rank rank, const TrainingShape& shape) {
  return MemoryOfProgram(plan, CompileStep(plan, rank, shape, Purpose::kTrain), shape);
}

RankMemories::RankMemories(const Plan& plan, const TrainingShape& shape) : plan_(plan), shape_(shape) {
  if (RankCount(plan) > kMostToldAlone) stand_ins_ = StandInsOf(plan);
}

const RankMemory& RankMemories::Of(Rank rank) {
  const Rank stand_in = stand_ins_.empty() ? rank : stand_ins_[rank];
  const auto known = known_.find(stand_in);
  if (known != known_.end()) return known->second;
  return known_.emplace(stand_in, MemoryOfRank(plan_, stand_in, shape_)).first->second;
}

RankMemory MemoryOfProgram(const Plan& plan, const StepProgram& program, const TrainingShape& shape) {
  std::optional<OptimizerShard> optimizer;
  if (plan.shards_optimizer) optimizer = OptimizerShardOf(plan, program.rank, shape.model);
  return MemoryOfProgram(plan, program, shape, optimizer.has_value() ? &*optimizer : nullptr);
}

RankMemory MemoryOfProgram(const Plan& plan, const StepProgram& program, const TrainingShape& shape,
                           const OptimizerShard* optimizer) {
  const ModelConfig local = LocalModel(shape.model, ShareOf(plan, program.rank, shape.model));
  return MemoryOf(local, shape.sequence, plan.units[program.unit].chunks, LargestMicroBatch(program.visits),
                  program.buffers, optimizer);
}

Bytes BufferBytes(const Plan& plan, const StepProgram& program, const TrainingShape& shape,
                  const BufferId& buffer) {
  const ModelConfig local = LocalModel(shape.model, ShareOf(plan, program.rank, shape.model));
  const int64_t rows = int64_t{LargestMicroBatch(program.visits)} * shape.sequence;
  const auto& chunks = plan.units[program.unit].chunks;
  return BufferSizes(local, chunks, RowCountsOf(program.buffers, rows), program.buffers)
      .Of(buffer.kind, buffer.chunk);
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
