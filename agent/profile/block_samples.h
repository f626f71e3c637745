#pragma once
#include <utility>
#include <vector>

#include "agent/profile/pass_judgement.h"
#include "agent/profile/pass_samples.h"

// What was measured of a block of one kind at one size, and what follows of other sizes. Pure.
namespace medley {

// One repetition of a block's passes, or the sum of a few.
struct BlockRepetition {
  PassSample forward, backward;
  PassSample inputs, weights;  // the gradients once more, each by itself; nothing where they are not apart
  PassSample all() const { return ((PassSample(forward) += backward) += inputs) += weights; }

  BlockRepetition& operator+=(const BlockRepetition& other);
};

struct BlockSamples {
  std::vector<PassSample> forward, backward, inputs, weights;

  // The mean of `passes` passes that took `sum` together, as one sample.
  void Add(const BlockRepetition& sum, double passes);
  // What they come to, `slowdown` (ForeignSlowdown) times longer. There are some.
  MeasuredPass Pass(double slowdown) const;
};

// Of a size that was not measured: on the line through the last two of `measured` (sizes, ascending), or in proportion to the only one.
MeasuredPass Extrapolated(const std::vector<std::pair<int, MeasuredPass>>& measured, int size);

}  // namespace medley
