#pragma once
#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device/device.h"
#include "runtime/engine/shard/branch.h"
#include "runtime/engine/shard/chunk_passes.h"
#include "runtime/engine/shard/layer_home.h"
#include "runtime/engine/shard/parameter_arena.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/optimizer_shard.h"
#include "runtime/ir/program/program.h"

namespace medley {

struct ShardOptions {
  TrainingShape shape;
  absl::InlinedVector<BlockRange, 1> chunks;  // ascending
  // Which part of them. What it is shared with: SetGroup.
  std::optional<ModelShare> share = std::nullopt;  // empty: all
  // What it updates and counts of that. Empty: all.
  std::optional<OptimizerShard> optimizer = std::nullopt;
  int micro_batch_sequences = 1;  // the largest that passes
  BufferCounts buffers;           // of the unit's training program
  Precision precision = Precision::kF32;
};

// The buffers of `blocks` that one micro-batch passes at a time, all of one type.
BufferCounts BuffersOfOne(const ModelConfig& config, BlockRange blocks, Dtype activations);

// Those of a rank of a plan that runs `program`.
ShardOptions ShardOptionsOf(const Plan& plan, const StepProgram& program, const TrainingShape& shape,
                            Precision precision);

// What one device holds of a model: ranges of its blocks, or a rank's share of them, with parameters,
// activations of the micro-batches in flight, and the passes. Allocates everything when created, exactly what
// MemoryOf says; a step allocates nothing of the device.
//
// Its ops work in scratch that is part of it; what they keep of its parameters goes with it.
// Owns its buffers; must not outlive the device. Thread: the one that submits to the device's queue; buffers
// at the boundary may be read and written by others between passes, as the step program orders it.
class ModelShard {
 public:
  // ResourceExhausted: the device's memory limit; the message has the need by part.
  static absl::StatusOr<std::unique_ptr<ModelShard>> Create(Device& device, const ShardOptions& options);
  ~ModelShard();

  ParameterArena& arena() { return *arena_; }
  DeviceQueue& queue() { return *device_.queue; }
  const ShardOptions& options() const { return options_; }

  // [micro-batch, sequence, hidden], or in sequence parallelism the rank's own rows of it, as this shard
  // stores activations, or as `dtype`, which takes no more; not of a chunk, and one that options.buffers
  // counts.
  Slice BoundaryOf(BufferId buffer, std::optional<Dtype> dtype = std::nullopt) const;

  using PassBuffers = medley::PassBuffers;
  // The micro-batch's token ids, [micro-batch, sequence]; kept until its backward in the stash that has what the embedding,
  // or the head, keeps.
  absl::Status SetTokens(const PassBuffers& buffers, absl::Span<const int32_t> tokens);
  absl::Status SetTargets(const PassBuffers& buffers, absl::Span<const int32_t> targets);

  using Boundary = medley::Boundary;
  // As ChunkPasses says. Without a range of blocks: of the whole chunk.
  absl::Status Forward(const PassBuffers& buffers, Purpose purpose) {
    return Forward(buffers, ChunkOf(buffers), purpose);
  }
  absl::Status Forward(const PassBuffers& buffers, BlockRange blocks, Purpose purpose);
  absl::Status MakeAgain(const PassBuffers& buffers, BlockRange blocks);
  absl::Status Backward(const PassBuffers& buffers) { return Backward(buffers, ChunkOf(buffers)); }
  absl::Status Backward(const PassBuffers& buffers, BlockRange blocks);
  absl::Status InputGradient(const PassBuffers& buffers);
  absl::Status WeightGradient(const PassBuffers& buffers) {
    return WeightGradient(buffers, ChunkOf(buffers));
  }
  absl::Status WeightGradient(const PassBuffers& buffers, BlockRange blocks);
  absl::Status JoinGradients(int chunk, BlockRange blocks);

  // Copy the first `size` bytes of one of a chunk's homed stashes to one of its homes on the host, and of a home to a
  // stash; block until they are there. Of a thread each, which need not be the queue's.
  absl::Status StoreStash(int chunk, int stash, int home, Bytes size);
  absl::Status FetchStash(int chunk, int home, int stash, Bytes size);
  // Of host memory, for what lives there.
  Bytes host_allocated() const;

  // The ranks that share the blocks, before the first pass; outlives the shard's passes. Null, as at first: it
  // has all of them.
  void SetGroup(RankGroup* group) { group_ = group; }

  // What gradients are multiplied by from the next pass on; 1 before.
  void SetLossScale(float factor) { loss_scale_ = factor; }

  // Submits the squared norm of what this rank counts (OptimizerShard) of the gradient of each of `segments`,
  // which are held.
  absl::Status ComputeNorms(absl::Span<const SegmentId> segments);
  // Submits to bring to the host what follows, which holds once a fence recorded later has been waited for;
  // the losses begin anew.
  absl::Status FetchScalars();
  double fetched_loss_sum() const { return scalars_[0]; }  // of all tokens since the last fetch, in nats
  // The squared norm of what this rank counts of the gradient of a segment that ComputeNorms was last called
  // for.
  double fetched_squared_norm(SegmentId segment) const;

  // The loss sum at once. Waits for the queue.
  absl::StatusOr<double> TakeLossSum();

  struct Update {
    float learning_rate = 0, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weight_decay = 0;
    float gradient_scale = 1;
    int64_t step = 1;
    friend bool operator==(const Update&, const Update&) = default;
  };
  // AdamW on every parameter that it owns and that lives on the device, decay where ParameterSpec says; then zeroes
  // all of their gradients.
  absl::Status UpdateParameters(const Update& update);
  // Parameters become what UpdateParameters(update) would make of them; moments and gradients stay, and the parameters
  // are kept as they were. Of a shard whose options.buffers go ahead, all of which lives on the device.
  absl::Status AdvanceParameters(const Update& update);
  // Behind AdvanceParameters, instead of UpdateParameters. With the same `update` what was made of the parameters since
  // holds; otherwise they are what they were before, updated by it, or, without one, as they were. Gradients are zero.
  absl::Status SettleParameters(const std::optional<Update>& update);
  // The same in the windows of a layer that lives on the host, whose gradients stay.
  absl::Status UpdateLayer(BlockId layer, const Update& update);
  absl::Status ZeroGradients();                 // of what lives on the device
  absl::Status ZeroGradientsOf(BlockId layer);  // in its window
  // Parameters were written otherwise: by those who own them.
  void ParametersChanged() { device_.ops->ParametersChanged(); }

 private:
  ModelShard(Device& device, const ShardOptions& options) : device_(device), options_(options) {}
  absl::Status UpdateOwned(const OwnedRun& run, const Update& update) {
    return UpdateOwned(run, update, arena_->Owned(ParameterArena::Part::kParameter, run));
  }
  absl::Status UpdateOwned(const OwnedRun& run, const Update& update, const Slice& parameters);
  absl::Status UpdateOwned(const OwnedRun& run, const Update& update, const Slice& parameters, const Slice& m,
                           const Slice& v);
  absl::Status Copy(const Slice& from, const Slice& to);
  absl::Status Allocate();
  // The device's ops, of which other shards may have made use since the last pass, with this one's scratch.
  Ops& PassOps();
  void CarveBoundaries();
  absl::Status OpenStashHome();
  absl::Status WriteRotaryAngles();
  PassShape ShapeOf(int micro_batch_sequences) const;
  Workspace WorkspaceOf(const PassShape& shape) const;
  // Those of micro-batches of a size, made when the first one comes.
  const ChunkPasses& PassesOf(int chunk, int micro_batch_sequences);
  const ChunkPasses& PassesOf(const PassBuffers& buffers) {
    return PassesOf(buffers.chunk, buffers.micro_batch_sequences);
  }
  BlockRange ChunkOf(const PassBuffers& buffers) const { return options_.chunks[buffers.chunk]; }
  // Those of the chunk with `block`, for a micro-batch of so many tokens.
  const ChunkPasses& PassesWith(BlockId block, size_t tokens);
  float TokenWeight() const;

  Device& device_;
  const ShardOptions options_;
  PassShape pass_;  // of the largest micro-batch
  RankGroup* group_ = nullptr;
  float loss_scale_ = 1;
  std::unique_ptr<ParameterArena> arena_;
  std::unique_ptr<Buffer> stash_buffer_, boundary_buffer_, workspace_buffer_, scalar_buffer_, scratch_buffer_;
  OpScratch scratch_;
  std::vector<SlotMemory> stashes_, leaving_stashes_, deferred_;  // by chunk
  SlotMemory recomputed_, stream_gradients_;
  // Null: activations stay on the device. Ends its copies before the stashes go.
  std::unique_ptr<LayerHome> stash_home_;
  BoundaryBuffers boundaries_;
  std::vector<std::list<ChunkPasses>> passes_;  // by chunk, one of each size
  std::vector<AdamWRange> update_ranges_;
  // Of a shard that goes ahead: its parameters as they were, as the arena has them, and scratch behind them.
  std::unique_ptr<Buffer> ahead_buffer_;
  Slice before_;                    // empty: it does not
  std::optional<Update> advanced_;  // by what, since the last update
  std::vector<NormRun> norm_runs_;
  // The loss sum, then the squared norm of each of the runs: as the device has them.
  std::vector<double> scalars_;
};

}  // namespace medley
