#pragma once
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device.h"
#include "runtime/model/model_config.h"

// How long a device takes for each kind of block: real passes of real shards, timed.
namespace medley {

struct MeasuredPass {
  double forward_seconds = 0;
  double backward_seconds = 0;
};

struct MicroBatchTimes {
  int micro_batch_sequences = 0;
  MeasuredPass embedding, layer, head;
  bool extrapolated = false;  // of a block that did not fit the device or took too long: from the sizes before
};

struct DeviceTimes {
  std::vector<MicroBatchTimes> by_micro_batch;  // parallel to the sizes asked for
  double update_seconds_per_parameter = 0;
  double norm_seconds_per_parameter = 0;
  Bytes workspace;                 // of the ops, beside kept copies
  double copy_bytes_per_parameter = 0;
};

// How long may be spent on it. A repetition is a forward and a backward pass; the first one of each size only warms up.
struct TimingLimits {
  double enough_seconds = 0.2;  // of a size, together with five repetitions
  double most_seconds = 2.0;    // of a size, but for the two repetitions that it has in any case
  // A size whose repetition would take longer, in proportion to the one before, is not measured: a device that is so busy
  // is saturated, and its time a straight line.
  double longest_repetition_seconds = 3.0;
};

// Times embedding, layer and head for each of `micro_batch_sizes` (ascending): lower quartiles over repetitions. Two
// layers are timed together, so that weights come from memory as they do in a whole model. Of a size that is too large or
// takes too long, the time is on the line through the two sizes before, or in proportion to the only one. Blocks; the
// device should have nothing else to do.
// ResourceExhausted: not even the smallest size fits the device.
absl::StatusOr<DeviceTimes> TimeBlocks(Device& device, const TrainingShape& shape, Precision precision,
                                       const std::vector<int>& micro_batch_sizes, const TimingLimits& limits = {});

}  // namespace medley
