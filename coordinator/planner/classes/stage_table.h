#pragma once
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/planner/classes/stage_memories.h"
#include "coordinator/planner/classes/stage_times.h"
#include "runtime/base/bytes.h"

namespace medley {

// Of a micro-batch on a stage whose passes may be in any order: what is kept until the gradient of the input is made, and then until that
// of the weights is, and how much there may be of both at once.
struct StageKeeping {
  double kept_bytes = 0, deferred_bytes = 0, limit_bytes = 0;
};

// What a stage lacks of the memory of each of its devices, doing what it needs least with; below 0: left.
struct StageShortage {
  Bytes bytes;
  UnitSaving saving;
};

// What stages may do to need less memory, and which of these ways one takes: of those that fit the one whose passes take the least time, of as
// few layers as do. Under ScheduleByClasses, of a problem of many devices. A way is to recompute all of a layer, all but attention or
// nothing; to store what forwards keep in host memory, or not; and to cut the residual stream by rows, or not. Ways are sorted once by what
// a layer then takes, and how many layers fit is remembered, so that a stage of pricing is looked up and not worked out. Where nothing
// fits otherwise (TableScope::layers_on_hosts), layers may live on hosts beside each way, with as many windows as fit or as few.
class StageTable : public StageTimes {
 public:
  // As StageTimes. `memories`: of the problem; must outlive it.
  StageTable(const PlanningProblem& problem, std::vector<DeviceClass> classes, StageMemories& memories,
             double optimizer_share, const TableScope& scope = {});

  bool layers_on_hosts() const { return scope().layers_on_hosts; }
  bool is_of_bounds() const { return scope().of_bounds; }
  // Without windows and wherever a stage is, from what takes layers the least time to what takes the most.
  const std::vector<UnitSaving>& WaysByTime(int kind, int size) const { return ways_[kind][size]; }
  // The most layers that fit of such a stage with none on its host, whatever it has; -1: not even a stage without any.
  int MostLayers(StageForm stage);
  // Beside all that the first rank has of it otherwise.
  StageKeeping KeepingOf(const StageForm& stage);
  // What such a stage may do without windows, whatever layers it has, what takes the least time first, and the most layers that then
  // fit; none with which no more fit than with one before.
  std::vector<std::pair<UnitSaving, int>> Ways(StageForm stage);
  // What such a stage does to need less memory that takes the least time of what fits, of as few layers as do where it
  // recomputes; none if nothing does.
  std::optional<UnitSaving> LeastSaving(StageForm stage);
  // Has it do that; false, and it is as it was, if nothing fits.
  bool FitWithLeast(StageForm& stage);

  // Whether its place and its host let a stage do what it says to need less memory.
  bool MaySave(const StageForm& stage);
  // How much more memory its first rank's device would have to have for it to fit so; below 0: what is left. A buffer that is too
  // large counts with what is too much of it, which more memory does not mend.
  Bytes ShortageOf(const StageForm& stage);
  // Of whatever it may do, with the fewest windows where layers may live on hosts.
  StageShortage LeastShortage(StageForm stage);

 private:
  std::vector<std::vector<UnitSaving>> WaysOf(int number) const;  // of a kind, by size
  // Of the first rank, with its share of the optimizer's state.
  RankMemory MemoryOf(const StageForm& stage);
  bool Fits(const StageForm& stage);
  bool HasRoomOnHost(const StageForm& stage, const RankMemory& memory) const;
  bool MayLiveOnHost(const StageForm& stage) const;
  // Of as few layers as fit, if it fits with all of them.
  UnitSaving WithFewestRecomputed(StageForm stage);
  // The most windows that fit; 0: not even the fewest, or its layers may not live there.
  int MostWindows(StageForm stage);

  StageMemories& memories_;
  const bool layers_summed_alone_;
  std::vector<std::vector<std::vector<UnitSaving>>> ways_;  // by kind and size
  std::unordered_map<std::tuple<int, int, bool, int, int, int>, int, NumbersHash> most_layers_;
  std::map<std::tuple<int, int, bool, int>, int> most_windows_;  // those that were found last
};

}  // namespace medley
