#pragma once
#include <vector>

#include "absl/types/span.h"
#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// How far each step of one member is, in chunks, and what may therefore go on. Pure.
class StepProgress {
 public:
  // `shares_memory`: by place, whether messages with that member are cut into kChunksInMemory.
  StepProgress(absl::Span<const CollectiveStep> steps, const std::vector<bool>& shares_memory);

  int64_t Chunks(int step) const { return steps_[step].chunks; }
  ElementRange Chunk(int step, int64_t chunk) const;
  // Whether all that `chunk` of `step` must follow is done.
  bool Ready(int step, int64_t chunk);
  // The next chunk of `step` is done.
  void Advance(int step) { ++steps_[step].done; }
  int64_t DoneChunks(int step) const { return steps_[step].done; }
  int64_t DoneElements(int step) const;

 private:
  struct State {
    ElementRange range;
    int64_t chunks = 1, done = 0;
    std::vector<int> follows;  // steps that are not all done
  };
  std::vector<State> steps_;
};

}  // namespace medley
