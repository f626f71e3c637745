#pragma once
#include <vector>

#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/step_writer.h"

namespace medley {

// The gathers that a step begins with where the plan shards the optimizer's state: what the owners of slices updated in the
// step before goes to all of their holders, beside the first forwards. So that a forward waits for what it uses alone, the
// first one of a chunk comes in pieces, each behind the last gather of its blocks.
class ParameterGathers {
 public:
  // Outlives it. Nothing is gathered before Write.
  explicit ParameterGathers(StepWriter& writer) : writer_(writer) {}

  // Writes them, in the order of their use: that of the slices' sums backwards, which is one for all ranks. The parts of a
  // bucket stay in their order.
  void Write();

  // The last gather of what `blocks` use; -1: there is none.
  int LastOf(BlockRange blocks) const;
  // Where the blocks from `first` on, of the chunk at hand, come to those of the next slice that is gathered, so that they
  // need not wait for it.
  BlockId EndOfPiece(BlockId first) const;

 private:
  void WriteOf(int slice);
  bool AtBegin(bool on_peers) const;
  const GradientSlice& SliceOf(int gather) const;

  StepWriter& writer_;
  bool gathers_parameters_ = false;
  std::vector<int> gathers_;  // the first instructions of the step
};

}  // namespace medley
