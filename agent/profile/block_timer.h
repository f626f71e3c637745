#pragma once
#include <vector>

#include "absl/status/statusor.h"
#include "agent/profile/pass_judgement.h"
#include "runtime/device/device.h"
#include "runtime/ir/model/model_config.h"

// How long a device takes for each kind of block: real passes of real shards, timed.
namespace medley {

struct DeviceTimes {
  std::vector<MicroBatchTimes> by_micro_batch;  // parallel to the sizes asked for
  double update_seconds_per_parameter = 0;
  double norm_seconds_per_parameter = 0;
  Bytes workspace;                      // that the ops hold beside kept copies and what shards set aside
  double copy_bytes_per_parameter = 0;  // kept copies, of each that products multiply by
};

// How long may be spent on it. In a round every block of every size has its turn.
struct TimingLimits {
  double enough_spread = 0.02;  // of every pass of account: no more rounds, but for the fewest
  int fewest_rounds = 5, most_rounds = 24;
  double enough_seconds = 5;  // that rounds go on at least, if there are not the most yet
  // What all rounds take at most, the fewest rounds apart; what cannot be right gets as much again at most.
  double most_seconds = 30;
  // Short passes are repeated for so long, and one turn is one sample: their mean.
  double turn_seconds = 0.004;
  // A size whose repetition would take longer, in proportion to the one before, is not measured: a device
  // that is so busy is saturated, and its time a straight line.
  double longest_repetition_seconds = 3;
};

// Times embedding, layer and head for each of `micro_batch_sizes` (ascending): MiddleOf over rounds, so that
// a burst of foreign load hits all alike. What DoubtsOf objects to is measured again, and marked if that does
// not help. Layers are timed together, as many as LayersToTime says (timed_shard.h), or fewer where they take long. Of a size that is too
// large or takes too long, the time is Extrapolated (block_samples.h). Blocks; the device should have nothing else to do
// than what it will have beside training.
// ResourceExhausted: not even the smallest size fits the device.
absl::StatusOr<DeviceTimes> TimeBlocks(Device& device, const TrainingShape& shape, Precision precision,
                                       const std::vector<int>& micro_batch_sizes,
                                       const TimingLimits& limits = {});

}  // namespace medley
