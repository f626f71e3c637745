#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ir/model/block_sizes.h"

// Whether measured times of a model's passes can be right. Pure.
namespace medley {

struct MeasuredPass {
  double forward_seconds = 0;
  double backward_seconds = 0;         // both gradients
  double weight_gradient_seconds = 0;  // that one alone; 0: not known
  double spread = 0;                   // of the wider of the two, as Middle::spread; 0: not known
  // Of a layer: to make its activations again, all and all but attention's; 0: not known.
  double recompute_seconds = 0, recompute_but_attention_seconds = 0;
  double split_seconds = 0;  // that both gradients take more as passes of their own
};

// The times of one micro-batch of so many windows; `layer` is of one layer.
struct MicroBatchTimes {
  int micro_batch_sequences = 0;
  MeasuredPass embedding, layer, head;
  // Whether a block did not fit the device or took too long, so that its times are from the sizes before.
  bool extrapolated = false;
  Bytes workspace;  // that the ops hold with micro-batches of at most this size; 0: not known
  // Why these times cannot be right, for people; empty: nothing speaks against them.
  std::string doubt;

  // The widest of the passes that make up a twentieth of a whole model's or more.
  double spread(int layers) const;
};

// The work of one window, forward and backward together. Bytes are of parameters and their gradients,
// whatever the number of windows.
struct ModelWork {
  PassWork layer, head;
  double bytes_per_second = 0;  // of large element-wise work on this device; 0: not known
};

// On a device that updates a parameter in so many seconds; 0: not known.
ModelWork ModelWorkOf(const TrainingShape& shape, double update_seconds_per_parameter);

enum class TimedBlock : uint8_t { kEmbedding, kLayer, kHead };

struct TimingDoubt {
  int index = 0;  // into the sizes
  TimedBlock block = TimedBlock::kLayer;
  std::string why;  // a sentence, for people
};

// What cannot be right in `sizes` (ascending by micro-batch size): nothing gets faster with more windows, no
// window takes much longer in a larger micro-batch (1.3 times, beyond the spread), a layer's backward takes
// 0.7 to 6 times its forward and about the same multiple at each size, and nothing is ten times slower than
// its work at the best rates that were seen. Too slow is what is blamed: nothing computes faster than it can.
// Extrapolated sizes and passes of no account are not judged. At most one doubt for each block and size.
std::vector<TimingDoubt> DoubtsOf(const std::vector<MicroBatchTimes>& sizes, const ModelWork& work);

}  // namespace medley
