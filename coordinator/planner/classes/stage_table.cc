#include "coordinator/planner/classes/stage_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "coordinator/planner/classes/host_layers.h"
#include "runtime/base/greatest_that.h"

namespace medley {
namespace {

// Nothing is stored near the end.
bool Saves(const UnitSaving& saving, const StageForm& stage) {
  return saving.activations_home == ActivationsHome::kDevice || stage.from_end >= kFewestFromEndToStore;
}

}  // namespace

StageTable::StageTable(const PlanningProblem& problem, std::vector<DeviceClass> classes,
                       StageMemories& memories, double optimizer_share, const TableScope& scope)
    : StageTimes(problem, std::move(classes), memories.ways(), optimizer_share, scope),
      memories_(memories),
      layers_summed_alone_(LayersAreSummedAlone(problem.shape.model)) {
  for (int k = 0; k < static_cast<int>(kinds().size()); ++k) ways_.push_back(WaysOf(k));
}

std::vector<std::vector<UnitSaving>> StageTable::WaysOf(int number) const {
  const StageKind& kind = kinds()[number];
  std::vector<UnitSaving> all;
  for (const Recompute recompute : kRecomputesByTime) {
    for (const ActivationsHome home : {ActivationsHome::kDevice, ActivationsHome::kHost}) {
      if (home == ActivationsHome::kHost && kind.fetch_bytes_per_second == 0) continue;
      for (const bool by_rows : {false, true}) {
        if (by_rows && kind.passes[1].empty()) continue;
        all.push_back({.recompute = recompute, .activations_home = home, .sequence_parallel = by_rows});
      }
    }
    if (!problem().constraints.saves_memory) break;
  }
  std::vector<std::vector<UnitSaving>> by_size;
  for (int size = 0; size < static_cast<int>(problem().micro_batch_sizes.size()); ++size) {
    // Of a layer, as many as there are.
    std::vector<std::pair<double, UnitSaving>> timed;
    for (const UnitSaving& saving : all) {
      const StageForm layer{
          .kind = number, .size = size, .from_end = kFewestFromEndToStore, .saving = saving};
      timed.push_back({PassSeconds(layer), saving});
    }
    std::stable_sort(timed.begin(), timed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<UnitSaving>& ways = by_size.emplace_back();
    for (const auto& [seconds, saving] : timed) ways.push_back(saving);
  }
  return by_size;
}

RankMemory StageTable::MemoryOf(const StageForm& stage) {
  const StageKind& kind = kinds()[stage.kind];
  RankMemory memory = memories_.Of(kind, stage, scope().least_routes);
  // A bound takes what others hold for as little as it can be.
  const int windows = is_of_bounds() ? 0 : stage.saving.window_layers;
  memory.optimizer =
      OptimizerBytes(memory.optimizer, windows, kind.layer, layers_summed_alone_, optimizer_share(stage));
  return memory;
}

bool StageTable::Fits(const StageForm& stage) {
  if (kinds()[stage.kind].device_class == scope().limited_class && stage.layers > scope().most_layers)
    return false;
  const RankMemory memory = MemoryOf(stage);
  return HasRoomOnHost(stage, memory) && medley::Fits(memory, kinds()[stage.kind].room);
}

// For what forwards keep there; of layers that live there MayLiveOnHost asks.
bool StageTable::HasRoomOnHost(const StageForm& stage, const RankMemory& memory) const {
  const Bytes host_memory = kinds()[stage.kind].host_memory;
  return stage.saving.window_layers > 0 || host_memory == Bytes{0} || memory.host <= host_memory ||
         is_of_bounds();
}

// With parameters and gradients of each layer there, and two moments of what it carries.
bool StageTable::MayLiveOnHost(const StageForm& stage) const {
  const StageKind& kind = kinds()[stage.kind];
  if (kind.fetch_bytes_per_second == 0 || stage.layers <= kFewestWindows) return false;
  // Under GPipe all micro-batches pass a layer before the next one, which times here do not know.
  if (memories_.schedule() == Schedule::kGPipe) return false;
  const double needed =
      static_cast<double>(stage.layers * kind.layer.value) * (2 + 2 * optimizer_share(stage));
  return kind.host_memory == Bytes{0} || needed <= static_cast<double>(kind.host_memory.value);
}

bool StageTable::MaySave(const StageForm& stage) {
  if (!Saves(stage.saving, stage)) return false;
  if (stage.saving.window_layers > 0) return layers_on_hosts() && MayLiveOnHost(stage);
  return stage.saving.activations_home == ActivationsHome::kDevice || HasRoomOnHost(stage, MemoryOf(stage));
}

Bytes StageTable::ShortageOf(const StageForm& stage) {
  const RankMemory memory = MemoryOf(stage);
  return memory.total() - LeftFor(memory, kinds()[stage.kind].room);
}

StageShortage StageTable::LeastShortage(StageForm stage) {
  StageShortage least = {.bytes = {std::numeric_limits<int64_t>::max()}};
  const auto consider = [&](const UnitSaving& saving) {
    stage.saving = saving;
    if (!MaySave(stage)) return;
    const Bytes bytes = ShortageOf(stage);
    if (bytes < least.bytes) least = {bytes, saving};
  };
  for (UnitSaving saving : WaysByTime(stage.kind, stage.size)) {
    consider(saving);
    if (!layers_on_hosts() || saving.activations_home == ActivationsHome::kHost) continue;
    saving.window_layers = kFewestWindows;
    consider(saving);
  }
  return least;
}

StageKeeping StageTable::KeepingOf(const StageForm& stage) {
  const StageKind& kind = kinds()[stage.kind];
  const RankMemory memory = MemoryOf(stage);
  const auto bytes = [](Bytes of) { return static_cast<double>(of.value); };
  StageKeeping keeping;
  keeping.kept_bytes = bytes(KeptBytes(stage));
  keeping.limit_bytes = bytes(LeftFor(memory, kind.room) - memory.total()) + bytes(memory.activations);
  if (kind.room.largest_buffer > Bytes{0})
    keeping.limit_bytes = std::min(keeping.limit_bytes, bytes(kind.room.largest_buffer));
  const double beside = stage.layers * bytes(kind.PassesOf(stage.saving, stage.size).layer_deferred);
  if (stage.saving.activations_home == ActivationsHome::kHost && Saves(stage.saving, stage)) {
    keeping.limit_bytes -= (kFewestFromEndToStore - 1) * keeping.kept_bytes;
    keeping.kept_bytes = 0;
  }
  keeping.deferred_bytes = keeping.kept_bytes + beside;
  return keeping;
}

int StageTable::MostLayers(StageForm stage) {
  const std::tuple key = {stage.kind, stage.size, stage.first, stage.from_end, NumberOfWay(stage.saving),
                          stage.units};
  const auto known = most_layers_.find(key);
  if (known != most_layers_.end()) return known->second;
  stage.saving.window_layers = 0;
  const auto fits = [&](int layers) {
    stage.layers = layers;
    return Fits(stage);
  };
  int low = -1, high = problem().shape.model.layers;
  // One place further from the end more is under way, and no more fits; often as much does. The last stage has the head.
  if (stage.from_end > 2) {
    StageForm nearer = stage;
    --nearer.from_end;
    high = MostLayers(nearer);
    if (high < 0 || fits(high)) low = high;
  }
  return most_layers_[key] = GreatestThat(low, high, fits);
}

std::vector<std::pair<UnitSaving, int>> StageTable::Ways(StageForm stage) {
  std::vector<std::pair<UnitSaving, int>> all;
  int most = -1;
  for (const UnitSaving& saving : WaysByTime(stage.kind, stage.size)) {
    if (!Saves(saving, stage)) continue;
    stage.saving = saving;
    const int layers = MostLayers(stage);
    if (layers <= most) continue;
    most = layers;
    all.push_back({saving, most});
    if (most == problem().shape.model.layers) break;
  }
  return all;
}

std::optional<UnitSaving> StageTable::LeastSaving(StageForm stage) {
  std::optional<UnitSaving> least;
  double least_seconds = 0;
  const auto consider = [&](const UnitSaving& saving) {
    stage.saving = saving;
    const double seconds = PassSeconds(stage);
    if (least && seconds >= least_seconds) return;
    least = saving;
    least_seconds = seconds;
  };
  // Whether what `stage` does takes less than the least so far with one layer made again, if not with none.
  const auto may_be_faster = [&] {
    StageForm with_one = stage;
    with_one.saving.recomputed_layers = stage.saving.recompute == Recompute::kNone ? 0 : 1;
    return !least || PassSeconds(with_one) < least_seconds;
  };
  const std::vector<UnitSaving>& ways = WaysByTime(stage.kind, stage.size);
  for (const UnitSaving& saving : ways) {
    if (!Saves(saving, stage)) continue;
    stage.saving = saving;
    if (!may_be_faster() || stage.layers > MostLayers(stage)) continue;
    consider(WithFewestRecomputed(stage));
    // Nothing is faster than the fastest with nothing recomputed.
    if (saving == ways.front() && saving.recompute == Recompute::kNone) return least;
  }
  // With nothing recomputed what fits needs no windows.
  if (!layers_on_hosts() || (least && least->recompute == Recompute::kNone)) return least;
  for (const UnitSaving& saving : ways) {
    if (saving.activations_home == ActivationsHome::kHost) continue;
    stage.saving = saving;
    const int most = MostWindows(stage);
    if (most == 0) continue;
    // The fewer, the more room there is for what is not made again.
    for (const int windows : {most, kFewestWindows}) {
      stage.saving = saving;
      stage.saving.window_layers = windows;
      if (may_be_faster()) consider(WithFewestRecomputed(stage));
      if (windows == kFewestWindows || saving.recompute == Recompute::kNone) break;
    }
  }
  return least;
}

int StageTable::MostWindows(StageForm stage) {
  if (!MayLiveOnHost(stage)) return 0;
  const auto fits = [&](int windows) {
    stage.saving.window_layers = windows;
    return Fits(stage);
  };
  if (!fits(kFewestWindows)) return 0;
  // Often the same as of one layer less, or of one place nearer to the end.
  int& known = most_windows_[{stage.kind, stage.size, stage.first, NumberOfWay(stage.saving)}];
  int low = kFewestWindows, high = stage.layers - 1;
  if (known > low && known <= high) {
    if (fits(known)) {
      low = known;
    } else {
      high = known - 1;
    }
  }
  if (low < high && !fits(low + 1)) high = low;
  return known = GreatestThat(low, high, fits);
}

UnitSaving StageTable::WithFewestRecomputed(StageForm stage) {
  if (stage.saving.recompute == Recompute::kNone || stage.layers < 2) return stage.saving;
  const int kept = GreatestThat(0, stage.layers - 1, [&](int keeps) {
    stage.saving.recomputed_layers = stage.layers - keeps;
    return Fits(stage);
  });
  stage.saving.recomputed_layers = kept > 0 ? stage.layers - kept : 0;
  return stage.saving;
}

bool StageTable::FitWithLeast(StageForm& stage) {
  const std::optional<UnitSaving> saving = LeastSaving(stage);
  if (saving) stage.saving = *saving;
  return saving.has_value();
}

}  // namespace medley
