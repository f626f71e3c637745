#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device/device.h"
#include "runtime/engine/shard/branch.h"
#include "runtime/engine/shard/parameter_arena.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/program.h"

namespace medley {

struct ShardOptions {
  TrainingShape shape;
  BlockRange blocks;
  // Which part of them, of their layers, and with whom: null, alone. The ends of the model are not shared
  // yet.
  std::optional<ModelShare> share = std::nullopt;  // empty: all
  RankGroup* group = nullptr;
  int micro_batch_sequences = 1;
  BufferCounts buffers;  // of the unit's training program
  Precision precision = Precision::kF32;
};

// The buffers of `blocks` that one micro-batch passes at a time, all of one type.
BufferCounts BuffersOfOne(const ModelConfig& config, BlockRange blocks, Dtype activations);

// Those of a rank of a plan without an ExecutionObjection, which runs `program`.
ShardOptions ShardOptionsOf(const Plan& plan, const StepProgram& program, const TrainingShape& shape,
                            Precision precision);

// A contiguous range of a model's blocks on one device: parameters, activations of the micro-batches in
// flight, and the passes. Allocates everything when created, exactly what MemoryOf says; a step allocates
// nothing.
//
// Owns its buffers; must not outlive the device. Thread: the one that submits to the device's queue; buffers
// at the boundary may be read and written by others between passes, as the step program orders it.
class ModelShard {
 public:
  // ResourceExhausted: the device's memory limit; the message has the need by part.
  static absl::StatusOr<std::unique_ptr<ModelShard>> Create(Device& device, const ShardOptions& options);

  ParameterArena& arena() { return *arena_; }
  DeviceQueue& queue() { return *device_.queue; }
  const ShardOptions& options() const { return options_; }

  // [micro-batch, sequence, hidden], as this shard stores activations, or as `dtype`, which takes no more; not
  // of a chunk, and one that options.buffers counts.
  Slice BoundaryOf(BufferId buffer, std::optional<Dtype> dtype = std::nullopt) const;

  // The micro-batch's token ids, [micro-batch, sequence]; kept in `stash` until its backward.
  absl::Status SetTokens(int stash, absl::Span<const int32_t> tokens);    // holder of the embedding
  absl::Status SetTargets(int stash, absl::Span<const int32_t> targets);  // holder of the head

  // A buffer at the boundary, and what its content is stored as.
  struct Boundary {
    Boundary(int index = -1, std::optional<Dtype> dtype = std::nullopt) : index(index), dtype(dtype) {}
    int index;
    std::optional<Dtype> dtype;  // none: as the shard stores activations
  };
  // Indices of the buffers that a pass uses; -1: none.
  struct PassBuffers {
    int stash = 0;
    int deferred = -1;         // of the two gradients, where each is a pass of its own
    Boundary input;            // none on the first stage
    Boundary output;           // of forward; none on the last stage
    Boundary input_gradient;   // of backward; none on the first stage
    Boundary output_gradient;  // of backward's first piece; none on the last stage
  };
  // The holder of the head adds the micro-batch's loss to the step's: here when evaluating, in Backward when
  // training, where the logits are made for the gradients as well. So the head's forward does nothing then,
  // and keeps nothing.
  absl::Status Forward(const PassBuffers& buffers, Purpose purpose);
  // Adds to the gradients. Goes through the last blocks first; `blocks` is the whole range, or a piece of it
  // that follows the one before.
  absl::Status Backward(const PassBuffers& buffers) { return Backward(buffers, options_.blocks); }
  absl::Status Backward(const PassBuffers& buffers, BlockRange blocks);
  // The same in two passes, to the same bits: what the stage before waits for, with all that the head has to
  // do, of the whole range; and then, at any time before its buffers are given to others, the rest.
  absl::Status InputGradient(const PassBuffers& buffers);
  absl::Status WeightGradient(const PassBuffers& buffers) { return WeightGradient(buffers, options_.blocks); }
  absl::Status WeightGradient(const PassBuffers& buffers, BlockRange blocks);

  // What gradients are multiplied by from the next pass on; 1 before.
  void SetLossScale(float factor) { loss_scale_ = factor; }

  // Submits the squared norm of the gradient of each of `segments`, which are held.
  absl::Status ComputeNorms(absl::Span<const SegmentId> segments);
  // Submits to bring to the host what follows, which holds once a fence recorded later has been waited for;
  // the losses begin anew.
  absl::Status FetchScalars();
  double fetched_loss_sum() const { return scalars_[0]; }  // of all tokens since the last fetch, in nats
  // The squared norm of the gradient of a segment that ComputeNorms was last called for.
  double fetched_squared_norm(SegmentId segment) const;

  // The loss sum at once. Waits for the queue.
  absl::StatusOr<double> TakeLossSum();

  struct Update {
    float learning_rate = 0, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weight_decay = 0;
    float gradient_scale = 1;
    int64_t step = 1;
  };
  // AdamW on every parameter, decay where ParameterSpec says; then zeroes the gradients.
  absl::Status UpdateParameters(const Update& update);
  absl::Status ZeroGradients();

 private:
  ModelShard(Device& device, const ShardOptions& options)
      : device_(device), options_(options), names_(OuterNamesOf(options.shape.model)) {}
  absl::Status Allocate();
  void Carve();
  absl::Status WriteRotaryAngles();
  Slice Outer(ParameterArena::Part part, const std::string& name) const;  // empty if `name` is
  Norm FinalNorm(ParameterArena::Part part, int stash) const;
  // The head's loss of normed rows; with their gradient and the weight's, unless `normed_gradient` is empty.
  absl::Status HeadLoss(int stash, const Slice& normed_gradient);
  absl::Status HeadForward(const Slice& input, int stash);
  absl::Status HeadBackward(const PassBuffers& buffers);
  absl::Status EmbeddingBackward(const PassBuffers& buffers);
  // The residual stream at a point (StreamPoints), and its gradient.
  Slice StreamAt(int point, const PassBuffers& buffers) const;
  Slice GradientAt(int point, const PassBuffers& buffers) const;
  // Calls of_branch(index) for each of the branches of `blocks`, from the last to the first, and says when to
  // go through the head and the embedding.
  template <typename OfHead, typename OfBranch, typename OfEmbedding>
  absl::Status GoBack(BlockRange blocks, const OfHead& of_head, const OfBranch& of_branch,
                      const OfEmbedding& of_embedding);
  int FirstBranchOf(BlockId block) const {
    return kBranches * (block - std::max(options_.blocks.first, BlockOfLayer(0)));
  }
  size_t ScalarOf(SegmentId segment) const;  // index into scalars_

  // What the blocks keep of one micro-batch. Vectors parallel to branches_.
  struct Stash {
    Slice tokens, embedded;
    std::vector<BranchStash> branches;
    Slice targets;
    Norm head;
  };
  // From the gradient of the input to that of the weights.
  struct Deferred {
    std::vector<Slice> inner_gradients;   // parallel to branches_
    std::vector<Slice> stream_gradients;  // by point; empty where it travels
  };

  Device& device_;
  const ShardOptions options_;
  const OuterNames names_;
  PassShape pass_;
  float loss_scale_ = 1;
  std::unique_ptr<ParameterArena> arena_;
  std::unique_ptr<Buffer> stash_buffer_, boundary_buffer_, workspace_buffer_, scalar_buffer_;
  std::vector<Stash> stash_;
  std::vector<Deferred> deferred_;
  std::array<std::vector<Slice>, kBufferKinds> boundaries_;  // by BufferKind; a stash is elsewhere
  Workspace workspace_;
  StreamPoints points_;
  std::vector<Branch> branches_;  // of the layers in the range
  std::vector<AdamWRange> update_ranges_;
  // The loss sum, then a squared norm of each held segment: as the device has them.
  std::vector<double> scalars_;
};

}  // namespace medley
