#pragma once
#include <map>

#include "runtime/base/bytes.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/plan/device_room.h"
#include "runtime/ir/program/optimizer_shard.h"
#include "runtime/ir/program/program.h"

// How much device memory a rank needs: the one model that the planner predicts with and the worker allocates
// by.
namespace medley {

// Of layers that live elsewhere, in host memory or with all of their holders: the windows through which a rank uses them.
struct WindowMemory {
  Bytes parameters, gradients, optimizer;
  Bytes total() const { return parameters + gradients + optimizer; }
};

struct RankMemory {
  // What lives on the device, and the windows of what lives elsewhere.
  Bytes parameters;  // f32
  Bytes gradients;   // f32
  // AdamW's m and v of what the rank owns, f32; of a rank that goes ahead of norms, beside them its parameters as they
  // were and scratch (AdvanceScratchElements).
  Bytes optimizer;
  Bytes activations;  // kept from forward to backward, all micro-batches in flight
  Bytes boundaries;   // inputs, outputs and their gradients on their way
  Bytes workspace;    // scratch of one block's pass, and ScalarBytes
  Bytes logits;       // scratch of the head's ops: those of some rows at a time
  Bytes conversions;  // scratch in which ops widen narrow tensors, piece by piece

  // Of the optimizer, all but m and v, which is one buffer.
  Bytes ahead;
  // What of parameters, gradients and the optimizer is windows.
  WindowMemory windows;
  // Of the layers and the activations that live there; not the device's, and not in the total.
  Bytes host;
  // Not memory of the model: how many elements of f32 products multiply by, of which a device that multiplies a
  // narrower type has copies (DeviceRoom). Parameters, and of activations those of one product at a time.
  int64_t multiplied = 0;
  // Nor that: in the largest micro-batch, which the ops' workspace depends on (DeviceRoom).
  int micro_batch_sequences = 0;

  Bytes total() const {
    return parameters + gradients + optimizer + activations + boundaries + workspace + logits + conversions;
  }
};

// The memory of a rank to which the model is `local` (LocalModel) and which holds `chunks` of it, with
// `micro_batch_sequences` windows in a micro-batch; `buffers` are as its step program says. `optimizer`: its
// own of a plan that shards it; null: it has the state of all that it holds.
RankMemory MemoryOf(const ModelConfig& local, int sequence, absl::Span<const BlockRange> chunks,
                    int micro_batch_sequences, const BufferCounts& buffers,
                    const OptimizerShard* optimizer = nullptr);

// The largest of the buffers that such a rank's memory is made of, and what of it that is, for people. Of the workspace all,
// with the sums that are a small buffer by themselves.
struct LargestBuffer {
  const char* part = "";
  Bytes bytes;
};
LargestBuffer LargestBufferOf(const RankMemory& memory);

// By how much that is more than `room` has for one; 0: it is not.
Bytes BufferExcess(const RankMemory& memory, const DeviceRoom& room);

// What `room` leaves for the total of such a rank, and whether that is enough: the one answer to whether it fits. Where a buffer is
// too large, the total is more than what is left by at least that excess.
Bytes LeftFor(const RankMemory& memory, const DeviceRoom& room);
bool Fits(const RankMemory& memory, const DeviceRoom& room);

// The largest micro-batch that routes bring to a unit, in sequences.
int LargestMicroBatch(const Visits& visits);

// What `rank` of a valid plan needs to train; compiles its program.
RankMemory MemoryOfRank(const Plan& plan, Rank rank, const TrainingShape& shape);
// The same of a program that has been compiled.
RankMemory MemoryOfProgram(const Plan& plan, const StepProgram& program, const TrainingShape& shape);
// The same where the rank's part of the optimizer's state is known (OptimizerShardOf); null: the plan does not shard it.
RankMemory MemoryOfProgram(const Plan& plan, const StepProgram& program, const TrainingShape& shape,
                           const OptimizerShard* optimizer);

// MemoryOfRank of one rank of a valid plan after another, each worked out when it is asked for; of more than kMostToldAlone ranks
// once for those that do the same (StandInsOf). Keeps references.
class RankMemories {
 public:
  RankMemories(const Plan& plan, const TrainingShape& shape);
  const RankMemory& Of(Rank rank);

 private:
  const Plan& plan_;
  const TrainingShape& shape_;
  std::vector<Rank> stand_ins_;  // empty: each rank is its own
  std::map<Rank, RankMemory> known_;
};

// What one of its buffers takes, of the device or, of a stash's home, of the host; nothing of a layer's window,
// which is with parameters, gradients and optimizer.
Bytes BufferBytes(const Plan& plan, const StepProgram& program, const TrainingShape& shape,
                  const BufferId& buffer);

// Of the workspace of such a rank: sums that leave the device, and what the ranks of its unit tell each
// other.
Bytes CollectiveBytes(const Plan& plan, const StepProgram& program, const TrainingShape& shape);

// In which copies of m and v are advanced beside so many parameters, a part of them at a time: elements, half of each.
int64_t AdvanceScratchElements(int64_t parameters);

// Sums that leave the device, f64: the loss, and a squared norm of each of the most runs (NormRun) that the
// segments of a holder of `chunks` can have where it has all of their sums; or of `norm_runs`, if there are
// more.
Bytes ScalarBytes(const ModelConfig& config, absl::Span<const BlockRange> chunks, int64_t norm_runs = 0);

}  // namespace medley
