#pragma once
#include <optional>
#include <tuple>
#include <unordered_map>

#include "coordinator/planner/classes/stage_kind.h"
#include "coordinator/planner/techniques/stage_buffers.h"
#include "coordinator/predictor/shared_ways.h"
#include "runtime/ir/program/memory.h"

namespace medley {

// The schedule that plans are made for: 1F1B, or GPipe where that is not allowed.
Schedule ScheduleByClasses(const PlanConstraints& constraints);

// Which way to save memory it is, whatever windows and however many recomputed layers it has.
inline int NumberOfWay(const UnitSaving& saving) {
  return (static_cast<int>(saving.recompute) * 2 + static_cast<int>(saving.activations_home)) * 2 +
         (saving.sequence_parallel ? 1 : 0);
}

struct NumbersHash {
  template <typename... Numbers>
  size_t operator()(const std::tuple<Numbers...>& numbers) const {
    const auto mixed = [](auto... of) {
      size_t hash = 0;
      ((hash = hash * 1'000'003 + static_cast<size_t>(of)), ...);
      return hash;
    };
    return std::apply(mixed, numbers);
  }
};

// What the first rank of a stage keeps, with all of the optimizer's state: counted once for all tables of a problem, whose
// shares of that differ. The memory model is asked for few stages: from a few layers on each takes as much as the one before, and so
// does each window and each layer that is recomputed, so all others lie on a line through these, to the byte. And the ways that
// the problem's devices share, which take a look at all of them.
class StageMemories {
 public:
  explicit StageMemories(const PlanningProblem& problem)
      : problem_(problem), schedule_(ScheduleByClasses(problem.constraints)), ways_(problem) {}
  Schedule schedule() const { return schedule_; }
  const SharedWays& ways() const { return ways_; }
  // Of a stage on devices such as `kind` has, of one of so many routes.
  RankMemory Of(const StageKind& kind, const StageForm& stage, int routes);

 private:
  // Of such a stage with few layers all of which it recomputes, if any: from so many on each takes as much as the one before, and so
  // does each that keeps all.
  struct Line {
    int layers = 0;
    RankMemory few;
    std::optional<RankMemory> next, but_one;  // of a layer more; of one that keeps all. None: nobody asked
  };
  Line& LineOf(const StageForm& stage, const StageKind& kind, int micro_batches);
  // Whatever windows it has.
  RankMemory InWindows(const StageKind& kind, const StageForm& stage, int micro_batches);
  RankMemory Count(const StageKind& kind, const StageForm& stage, int micro_batches);

  const PlanningProblem& problem_;
  const Schedule schedule_;
  const SharedWays ways_;
  StageBuffers buffers_;
  using Key = std::tuple<int, int, int, int, bool, int, int, int, int>;
  std::unordered_map<Key, Line, NumbersHash> lines_;
};

}  // namespace medley
