#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/profile/block_samples.h"
#include "runtime/device/device.h"
#include "runtime/device/queue_timer.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/model/model_config.h"

namespace medley {

// Layers are timed together, and no fewer than this many.
inline constexpr int kFewestTimedLayers = 2;

// The most of `layers` that divide into pieces of so many.
inline int WholePieces(int layers) { return layers - layers % kFewestTimedLayers; }

// How many layers of a model are timed together, so that all comes from memory as in a whole model. An emulated device takes as
// long wherever its memory lies.
int LayersToTime(const Device& device, const TrainingShape& shape, int micro_batch);

// A shard of `blocks` of a small model of the same layer shape, with one micro-batch of made-up tokens.
class TimedShard {
 public:
  // `splits`: it also times the two gradients each by itself, which takes more memory; of layers. `recompute`: in place of
  // backwards, what is made again; likewise.
  static absl::StatusOr<TimedShard> Create(Device& device, const TrainingShape& shape, Precision precision,
                                           BlockRange blocks, int micro_batch, bool splits,
                                           Recompute recompute = Recompute::kNone);

  absl::StatusOr<BlockRepetition> TimeOnce();
  // Both passes through a few of its layers (PieceLayers), which take turns: forwards go onwards and backwards back, as in a step, so that
  // what comes in is what the pass before has made.
  absl::StatusOr<BlockRepetition> TimePiece();
  int PieceLayers() const { return pieces_.front().size(); }

  struct RecomputingRepetition {
    PassSample forward, again;
  };
  absl::StatusOr<RecomputingRepetition> TimeRecomputing();

  // Of all its layers, and it has nothing else.
  absl::StatusOr<PassSample> TimeNorms();
  absl::StatusOr<PassSample> TimeUpdate(int step);

  ModelShard& shard() { return *shard_; }

 private:
  // On the queue's own clock, as the executor times instructions.
  absl::StatusOr<PassSample> Time(const std::function<absl::Status()>& submit);
  // Values as they are in training: denormals and zeros would be another speed.
  absl::Status FillBoundaries();
  template <typename Element, typename Value>
  absl::Status Fill(const Slice& slice, const Value& value);

  Device* device_ = nullptr;
  std::unique_ptr<QueueTimer> timer_;
  // This thread does the device's work. Another device goes on while this thread waits for a processor.
  bool computes_here_ = false;
  std::unique_ptr<ModelShard> shard_;
  std::vector<BlockRange> pieces_;  // of its blocks, that take turns
  size_t turn_ = 0;
  ModelShard::PassBuffers buffers_;
  std::optional<ModelShard::PassBuffers> split_;  // with what lies between the two gradients
};

}  // namespace medley
