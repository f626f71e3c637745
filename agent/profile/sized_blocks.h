#pragma once
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/profile/block_samples.h"
#include "agent/profile/pass_judgement.h"
#include "agent/profile/timed_shard.h"

namespace medley {

// A block of one kind at one micro-batch size, and what was measured of it.
struct SizedBlock {
  TimedBlock block = TimedBlock::kLayer;
  int index = 0;  // of the size
  int micro_batch = 0;
  int layers = 1;
  std::unique_ptr<TimedShard> shard;  // null: gave way to another
  BlockSamples samples;
  double seconds = 0;  // of one repetition, as far as is known
};

// Which blocks are measured at which sizes, and their shards: as many at a time as the device has memory for.
class SizedBlocks {
 public:
  SizedBlocks(Device& device, const TrainingShape& shape, Precision precision)
      : device_(device), shape_(shape), precision_(precision) {}

  // Adds a block at one size; null if that is not measured, for one repetition would take longer than `longest_seconds`, or too much memory.
  // `last`: at the size before; null: this is the first one, and ResourceExhausted if it takes too much memory.
  absl::StatusOr<const SizedBlock*> Add(TimedBlock block, int index, int micro_batch, const SizedBlock* last,
                                        double longest_seconds);

  // Opens the shard and lets it run once, where it is not open. Others give way if they take the memory it
  // needs.
  absl::Status Open(SizedBlock& sized);
  void CloseAll();

  BlockRange BlocksOf(const SizedBlock& sized) const;
  // The layer at a size; null: that is not measured.
  SizedBlock* LayerAt(int index) const;
  const std::vector<std::unique_ptr<SizedBlock>>& all() const { return all_; }

 private:
  Device& device_;
  const TrainingShape shape_;
  const Precision precision_;
  std::vector<std::unique_ptr<SizedBlock>> all_;  // as they were added
};

}  // namespace medley
