#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/planner/techniques/memory_saving.h"
#include "coordinator/planner/techniques/stage_buffers.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/shared_ways.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/program/memory.h"

namespace medley {

// What a pipeline stage may run on: so many devices of one class and host that share the width of its blocks evenly.
struct StageKind {
  int device_class = 0;
  int degree = 1;
  std::vector<int> devices;        // of the problem, an example
  std::vector<ModelShare> shares;  // of its ranks
  // Of the slowest rank, with what the ranks sum within passes; `times` by size of the micro-batch.
  DeviceCost cost;
  // By size, as the ranks pass micro-batches with all rows each, and in sequence parallelism; those that there are.
  struct Passes {
    BlockTimes times;
    // Of a layer, by what is recomputed: what that takes, and what is kept.
    std::array<double, kRecomputes> layer_recompute_seconds;
    std::array<Bytes, kRecomputes> layer_kept;
    Bytes embedding_kept;
    // Of a layer, beside that, from the gradient of its input to that of its weights where these are passes of their own.
    Bytes layer_deferred;
  };
  std::array<std::vector<Passes>, 2> passes;
  // Without windows, from what takes layers the least time to what takes the most; by size.
  std::vector<std::vector<UnitSaving>> ways;
  // For all ranks to have what each received of an activation, by size.
  std::vector<double> gather_seconds;
  DeviceRoom room;  // of the first rank, whose share is the largest
  // Of host memory: the rates of copies, 0: not measured; an equal part of the host's memory, 0: not known; and bytes of one
  // layer's parameters, of the first rank.
  double fetch_bytes_per_second = 0, store_bytes_per_second = 0;
  Bytes host_memory, layer;

  const Passes& PassesOf(const UnitSaving& saving, int size) const {
    return passes[saving.sequence_parallel ? 1 : 0][size];
  }
  // A layer's parameters, to the device and from it.
  double FetchSeconds() const { return static_cast<double>(layer.value) / fetch_bytes_per_second; }
  double StoreSeconds() const { return static_cast<double>(layer.value) / store_bytes_per_second; }
};

// Which stages a table has, and what of.
struct TableScope {
  bool layers_on_hosts = false;  // they may live there
  // What no plan does sooner: copies take no time, for how far they overlap is not known, and messages what they take alone. Else
  // messages between hosts take what they do while the units that a host has room for send theirs.
  bool of_bounds = false;
  int most_routes = std::numeric_limits<int>::max();  // of which a host may have so many units
  // Under GPipe a unit keeps an equal part for so many routes of the batch.
  int least_routes = 1;
  int only_degree = 0;  // of all stages; 0: any
};

// A stage of a route by what its time and memory depend on.
struct StageForm {
  int kind = 0;        // StageTable::kinds
  int size = 0;        // index into PlanningProblem::micro_batch_sizes
  int layers = 1;      // 0: the embedding alone, or the head
  bool first = false;  // has the embedding
  // 1: the last of its route, with the head. Under 1F1B a unit of it has so many micro-batches under way at most.
  int from_end = 1;
  UnitSaving saving;
  int units = 1;  // that hold it side by side, and take micro-batches in turn
};

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

// The schedule that plans are made for: 1F1B, or GPipe where that is not allowed.
Schedule ScheduleByClasses(const PlanConstraints& constraints);

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
// shares of that differ. And the ways that its devices share, which take a look at all of them.
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

// Times and memory of stages under ScheduleByClasses, of a problem of many devices. Keeps a reference to the problem.
class StageTable {
 public:
  // `optimizer_share`: of the optimizer's state of what a stage of one unit holds, what it carries itself (ZeRO-1); 1: all of it. Of more
  // units each carries a part of that, where plans may save memory.
  // `memories`: of the problem; must outlive it.
  StageTable(const PlanningProblem& problem, std::vector<DeviceClass> classes, StageMemories& memories,
             double optimizer_share, const TableScope& scope = {});

  const PlanningProblem& problem() const { return problem_; }
  const std::vector<DeviceClass>& classes() const { return classes_; }
  const std::vector<StageKind>& kinds() const { return kinds_; }
  double optimizer_share() const { return optimizer_share_; }
  double optimizer_share(const StageForm& stage) const;

  double ForwardSeconds(const StageForm& stage) const;   // with copies that take longer
  double BackwardSeconds(const StageForm& stage) const;  // likewise, and with what it recomputes
  // Of that, gradients of weights, which may be put off where nothing is recomputed; without copies.
  double WeightGradientSeconds(const StageForm& stage) const;
  double PassSeconds(const StageForm& stage) const { return ForwardSeconds(stage) + BackwardSeconds(stage); }
  // Of that, what a micro-batch has to wait for: a stage that waits for a gradient makes its last layer again meanwhile.
  double WaySeconds(const StageForm& stage) const;
  // One activation or gradient from a stage of one kind to one of another, which then has all of it on each rank.
  double MessageSeconds(int from, int to, int size, bool same_host) const {
    return messages_[(static_cast<size_t>(from) * kinds_.size() + to) * 2 + (same_host ? 1 : 0)][size];
  }
  double LeastMessageSeconds(int from, int to, int size) const {
    return std::min(MessageSeconds(from, to, size, false), MessageSeconds(from, to, size, true));
  }
  // Parameters of a stage, of all its ranks together.
  int64_t Parameters(const StageForm& stage) const;
  // Of the first and the last stage of a route; of one stage once.
  int64_t TiedParameters() const { return tied_parameters_; }
  double UpdateSeconds(const StageForm& stage) const;  // with what it copies at the end of a step

  // The most layers that fit of such a stage with none on its host, whatever it has; -1: not even a stage without any.
  int MostLayers(StageForm stage);
  // Beside all that the first rank has of it otherwise.
  StageKeeping KeepingOf(const StageForm& stage);
  bool layers_on_hosts() const { return scope_.layers_on_hosts; }
  bool is_of_bounds() const { return scope_.of_bounds; }
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
  void AddKind(int device_class, int degree);
  void AddPasses(StageKind& kind, const DeviceCost& cost, bool by_rows) const;
  void FindWays(StageKind& kind) const;  // the last of kinds_
  void FindHost(StageKind& kind) const;
  void TabulateMessages();
  // What part of an activation takes from a kind's first device to another one.
  double TransferSecondsTo(const StageKind& receiver, int device, const StageKind& sender,
                           double bytes) const;
  // Of the first rank, with its share of the optimizer's state.
  RankMemory MemoryOf(const StageForm& stage);
  bool Fits(const StageForm& stage);
  bool HasRoomOnHost(const StageForm& stage, const RankMemory& memory) const;
  bool MayLiveOnHost(const StageForm& stage) const;
  // Of what it recomputes, what goes on while it waits for a gradient.
  double AheadSeconds(const StageForm& stage) const;
  // Of as few layers as fit, if it fits with all of them.
  UnitSaving WithFewestRecomputed(StageForm stage);
  // The most windows that fit; 0: not even the fewest, or its layers may not live there.
  int MostWindows(StageForm stage);
  bool CountsCopies(const StageForm& stage) const {
    return stage.saving.window_layers > 0 && !scope_.of_bounds;
  }
  // What forwards of a micro-batch keep.
  Bytes KeptBytes(const StageForm& stage) const;
  // What goes to host memory and comes back of a micro-batch; 0 if it stays on the device.
  double StoredActivationsSeconds(const StageForm& stage) const;

  const PlanningProblem& problem_;
  const std::vector<DeviceClass> classes_;
  const double optimizer_share_;
  const TableScope scope_;
  const bool layers_summed_alone_;
  std::vector<StageKind> kinds_;
  std::vector<std::vector<double>> messages_;  // [(from * kinds + to) * 2 + same host][size]
  int64_t tied_parameters_ = 0, embedding_parameters_ = 0, layer_parameters_ = 0, head_parameters_ = 0;
  StageMemories& memories_;
  std::unordered_map<std::tuple<int, int, bool, int, int, int>, int, NumbersHash> most_layers_;
  std::map<std::tuple<int, int, bool, int>, int> most_windows_;  // those that were found last
};

}  // namespace medley
