#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ir/model/block_sizes.h"

// What repeated measurements of a model's passes come to, and whether that can be right. Pure.
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

// One repetition of a pass, or the mean of a few that followed each other.
struct PassSample {
  double seconds = 0;
  // The part of `seconds` in which it was ready to compute while others had the processor; 0 where nobody can
  // tell.
  double waited_seconds = 0;

  PassSample& operator+=(const PassSample& other) {
    seconds += other.seconds;
    waited_seconds += other.waited_seconds;
    return *this;
  }
};

struct Middle {
  double seconds = 0;
  double spread = 0;  // half the distance between the quartiles, over the median
};

// What a pass takes typically while nobody else has the processor: the mean of those samples that do not lie
// far outside of the quartiles, of what is left of them without waiting. A step of training is the sum of
// many passes, so a mean; a short burst of disturbance does not count. `samples`: one or more.
Middle MiddleOf(const std::vector<PassSample>& samples);

// How much longer all takes because others use the processor, 1 to 10: times MiddleOf it is never more than what was
// measured, however much the kernel says that was waited for. `rounds`: what followed each other without a pause. Training will
// see what is there most of the time, so a load counts, over all rounds; if fewer than a fifth of them waited for it, it was a
// burst and does not.
double ForeignSlowdown(const std::vector<PassSample>& rounds);

// Why times with such a slowdown say more about the others than about the device, for people; empty: they do not.
std::string DoubtOfSlowdown(double slowdown);

// The work of one window, forward and backward together. Bytes are of parameters and their gradients,
// whatever the number of windows.
struct ModelWork {
  PassWork layer, head;
  double bytes_per_second = 0;  // of large element-wise work on this device; 0: not known
};

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
