#include "comm/collective/step_progress.h"

#include <algorithm>
#include <utility>

#include "runtime/ir/collective/chunk_size.h"
#include "runtime/ir/collective/step_dependencies.h"

namespace medley {

StepProgress::StepProgress(absl::Span<const CollectiveStep> steps, const std::vector<bool>& shares_memory) {
  std::vector<std::vector<int>> dependencies = StepDependencies(steps);
  for (size_t i = 0; i < steps.size(); ++i) {
    const int wanted = shares_memory[steps[i].peer] ? kChunksInMemory : kChunksAMessage;
    steps_.push_back(
        {steps[i].range, ChunksOf(steps[i].range.size(), wanted), 0, std::move(dependencies[i])});
  }
}

ElementRange StepProgress::Chunk(int step, int64_t chunk) const {
  const State& state = steps_[step];
  const int64_t size = state.range.size();
  return {state.range.begin + size * chunk / state.chunks,
          state.range.begin + size * (chunk + 1) / state.chunks};
}

int64_t StepProgress::DoneElements(int step) const {
  return steps_[step].range.size() * steps_[step].done / steps_[step].chunks;
}

bool StepProgress::Ready(int step, int64_t chunk) {
  std::vector<int>& follows = steps_[step].follows;
  if (follows.empty()) return true;
  std::erase_if(follows, [&](int before) { return steps_[before].done == steps_[before].chunks; });
  const ElementRange range = Chunk(step, chunk);
  return std::all_of(follows.begin(), follows.end(), [&](int before) {
    const ElementRange& other = steps_[before].range;
    return !range.Meets(other) || other.begin + DoneElements(before) >= std::min(range.end, other.end);
  });
}

}  // namespace medley
