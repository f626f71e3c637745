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
  bool extrapolated = false;  // did not fit the device alone: scaled from the largest size that did
};

struct DeviceTimes {
  std::vector<MicroBatchTimes> by_micro_batch;  // parallel to the sizes asked for
  double update_seconds_per_parameter = 0;
  double norm_seconds_per_parameter = 0;
  Bytes workspace;                 // of the ops, beside kept copies
  double copy_bytes_per_parameter = 0;
};

// Times embedding, layer and head for each of `micro_batch_sizes` (ascending): lower quartiles over repetitions, after a warm-up, until
// there are enough or two seconds are spent. Two layers are timed together, so that weights come from memory as they
// do in a whole model. Blocks; the device should have nothing else to do.
// ResourceExhausted: not even the smallest size fits the device.
absl::StatusOr<DeviceTimes> TimeBlocks(Device& device, const TrainingShape& shape, Precision precision,
                                       const std::vector<int>& micro_batch_sizes);

}  // namespace medley
