#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device/device.h"
#include "runtime/model/layer.h"
#include "runtime/model/parameter_arena.h"
#include "runtime/program/memory.h"
#include "runtime/program/program.h"

namespace medley {

struct ShardOptions {
  TrainingShape shape;
  BlockRange blocks;
  int micro_batch_sequences = 1;
  SlotCounts slots;             // of the unit's training program
  Precision precision = Precision::kF32;
};

// A contiguous range of a model's blocks on one device: parameters, activations of the micro-batches in flight, and the
// passes. Allocates everything when created, exactly what MemoryOf says; a step allocates nothing.
//
// Owns its buffers; must not outlive the device. Thread: the one that submits to the device's queue; buffers at the
// boundary may be read and written by others between passes, as the step program orders it.
class ModelShard {
 public:
  // ResourceExhausted: the device's memory limit; the message has the need by part.
  static absl::StatusOr<std::unique_ptr<ModelShard>> Create(Device& device, const ShardOptions& options);

  ParameterArena& arena() { return *arena_; }
  DeviceQueue& queue() { return *device_.queue; }
  const ShardOptions& options() const { return options_; }

  enum class Boundary { kInput, kOutput, kInputGradient, kOutputGradient };
  // [micro-batch, sequence, hidden]; `slot` below the count in options.slots.
  Slice BoundaryOf(Boundary boundary, int slot) const;

  // The micro-batch's token ids, [micro-batch, sequence]; kept in `stash_slot` until its backward.
  absl::Status SetTokens(int stash_slot, absl::Span<const int32_t> tokens);    // holder of the embedding
  absl::Status SetTargets(int stash_slot, absl::Span<const int32_t> targets);  // holder of the head

  struct PassSlots {
    int stash = 0;
    int input = -1;   // not used by the first stage
    int output = -1;  // not used by the last stage
  };
  // The holder of the head adds the micro-batch's loss to the step's; when training it also computes the head's gradients
  // here, where the logits are.
  absl::Status Forward(const PassSlots& slots, Purpose purpose);
  // Adds to the gradients. `input_gradient_slot` is not used by the first stage, `output_gradient_slot` not by the last.
  struct GradientSlots {
    int stash = 0;
    int input = -1;            // where forward's input lies
    int output_gradient = -1;
    int input_gradient = -1;
  };
  // Goes through the last blocks first; `blocks` is the whole range, or a piece of it that follows the one before.
  absl::Status Backward(const GradientSlots& slots) { return Backward(slots, options_.blocks); }
  absl::Status Backward(const GradientSlots& slots, BlockRange blocks);

  // Sum of the losses of all tokens since the last call, in nats; then starts anew. Waits for the queue.
  absl::StatusOr<double> TakeLossSum();

  // Squared norm of the gradient of `segment`. Waits for the queue.
  absl::StatusOr<double> SquaredGradientNorm(int segment);

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
  Norm FinalNorm(ParameterArena::Part part, int stash_slot) const;
  absl::Status HeadForward(const Slice& input, int stash_slot, Purpose purpose);
  absl::Status HeadBackward(const Slice& input, int stash_slot, const Slice& input_gradient);
  Slice InputOf(int block, int stash_slot, int input_slot) const;
  absl::StatusOr<double> ReadScalar(int64_t index);

  // What the blocks keep of one micro-batch. Vectors parallel to the blocks of the range.
  struct Stash {
    Slice tokens, embedded;
    std::vector<LayerStash> layers;
    Slice targets, head_mean, head_rstd, head_gradient;
  };

  Device& device_;
  const ShardOptions options_;
  const OuterNames names_;
  PassShape pass_;
  std::unique_ptr<ParameterArena> arena_;
  std::unique_ptr<Buffer> stash_buffer_, boundary_buffer_, workspace_buffer_, scalar_buffer_;
  std::vector<Stash> stash_;          // by slot
  std::vector<Slice> boundaries_[4];  // by Boundary, slot
  Workspace workspace_;
  std::vector<LayerTensors> parameters_, gradients_;  // of the layers in the range
  std::vector<AdamWRange> update_ranges_;
};

}  // namespace medley
