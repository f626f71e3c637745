#include "coordinator/planner/classes/stage_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "coordinator/planner/classes/host_layers.h"
#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/base/greatest_that.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

// Which way to save it is, whatever windows there are.
int KindOf(const UnitSaving& saving) {
  return (static_cast<int>(saving.recompute) * 2 + static_cast<int>(saving.activations_home)) * 2 +
         (saving.sequence_parallel ? 1 : 0);
}

// Nothing is stored near the end.
bool Saves(const UnitSaving& saving, const StageForm& stage) {
  return saving.activations_home == ActivationsHome::kDevice || stage.from_end >= kFewestFromEndToStore;
}

// `memory` of something is to be that of as much and `more`, of which `with_next` has the first.
void Grow(RankMemory& memory, const RankMemory& with_next, int more) {
  for (Bytes RankMemory::*part :
       {&RankMemory::parameters, &RankMemory::gradients, &RankMemory::optimizer, &RankMemory::activations,
        &RankMemory::boundaries, &RankMemory::workspace, &RankMemory::logits, &RankMemory::conversions,
        &RankMemory::ahead, &RankMemory::host})
    memory.*part += more * (with_next.*part - memory.*part);
  for (Bytes WindowMemory::*part :
       {&WindowMemory::parameters, &WindowMemory::gradients, &WindowMemory::optimizer})
    memory.windows.*part += more * (with_next.windows.*part - memory.windows.*part);
  memory.multiplied += more * (with_next.multiplied - memory.multiplied);
}

// Such a stage of so many layers, of which the last `recomputed` are made again; 0: all, if any.
StageForm WithLayers(StageForm stage, int layers, int recomputed) {
  stage.layers = layers;
  stage.saving.recomputed_layers = recomputed;
  return stage;
}

}  // namespace

Schedule ScheduleByClasses(const PlanConstraints& constraints) {
  const std::vector<Schedule>& allowed = constraints.schedules;
  constexpr Schedule k1F1B = Schedule::kOneForwardOneBackward;
  return std::find(allowed.begin(), allowed.end(), k1F1B) != allowed.end() ? k1F1B : Schedule::kGPipe;
}

StageTable::StageTable(const PlanningProblem& problem, std::vector<DeviceClass> classes,
                       StageMemories& memories, double optimizer_share, const TableScope& scope)
    : problem_(problem),
      classes_(std::move(classes)),
      optimizer_share_(optimizer_share),
      scope_(scope),
      layers_summed_alone_(LayersAreSummedAlone(problem.shape.model)),
      memories_(memories) {
  const ModelConfig& model = problem.shape.model;
  for (int c = 0; c < static_cast<int>(classes_.size()); ++c) {
    for (int degree = 1; degree <= classes_[c].most_on_host; ++degree) {
      if (scope.only_degree > 0 && degree != scope.only_degree) continue;
      if (degree == 1 || SharingObjection(model, degree).empty()) AddKind(c, degree);
    }
  }
  tied_parameters_ = SegmentElements(model, kTiedSegment);
  embedding_parameters_ = SegmentElements(model, SegmentOfBlock(model.embedding_block()));
  layer_parameters_ = SegmentElements(model, SegmentOfBlock(BlockOfLayer(0)));
  head_parameters_ = SegmentElements(model, SegmentOfBlock(model.head_block()));
  TabulateMessages();
}

void StageTable::AddKind(int device_class, int degree) {
  const ModelConfig& model = problem_.shape.model;
  const DeviceClass& of = classes_[device_class];
  const auto host = std::find_if(of.hosts.begin(), of.hosts.end(), [&](const std::vector<int>& devices) {
    return static_cast<int>(devices.size()) >= degree;
  });
  StageKind kind{
      .device_class = device_class, .degree = degree, .devices = {host->begin(), host->begin() + degree}};
  kind.shares = EvenShares(model, degree);
  const PlanningProblem alone = OnDevices(problem_, kind.devices);
  SharedUnit unit{.shares = kind.shares};
  for (int member = 0; member < degree; ++member) {
    if (!CostsOf(alone.devices[member], model, kind.shares[member])) return;  // not measured
    unit.devices.push_back(member);
  }
  kind.room = CostsOf(alone.devices[0], model, kind.shares[0])->room;
  kind.cost = CostOfUnit(alone, unit);
  AddPasses(kind, kind.cost, /*by_rows=*/false);
  if (degree > 1 && problem_.constraints.saves_memory) {
    unit.sequence_parallel = true;
    AddPasses(kind, CostOfUnit(alone, unit), /*by_rows=*/true);
  }
  Reductions reductions(alone);
  const int group = degree > 1 ? reductions.GroupOf(unit.devices) : -1;
  for (size_t size = 0; size < problem_.micro_batch_sizes.size(); ++size) {
    const int sequences = problem_.micro_batch_sizes[size];
    const Bytes activation =
        SizeOf(kind.cost.activations) * (int64_t{sequences} * problem_.shape.sequence * model.hidden);
    kind.gather_seconds.push_back(group < 0 ? 0 : reductions.GatherSeconds(group, activation));
  }
  FindHost(kind);
  kinds_.push_back(std::move(kind));
  FindWays(kinds_.back());
}

void StageTable::AddPasses(StageKind& kind, const DeviceCost& cost, bool by_rows) const {
  const ModelConfig &model = problem_.shape.model, local = LocalModel(model, kind.shares[0]);
  for (size_t size = 0; size < problem_.micro_batch_sizes.size(); ++size) {
    const int sequences = problem_.micro_batch_sizes[size];
    const int64_t all_rows = int64_t{sequences} * problem_.shape.sequence;
    const RowCounts rows = {all_rows, by_rows ? RowsOfMember(all_rows, kind.degree, 0).size() : all_rows};
    StageKind::Passes& passes = kind.passes[by_rows ? 1 : 0].emplace_back();
    passes.times = cost.times[size];
    passes.layer_deferred = DeferredBytes(local, {BlockOfLayer(0), BlockOfLayer(1)}, rows, cost.activations);
    passes.embedding_kept = StashBytes(local, model.embedding_block(), rows, cost.activations);
    for (const Recompute recompute : kRecomputesByTime) {
      const int at = static_cast<int>(recompute);
      passes.layer_recompute_seconds[at] =
          RecomputeSeconds(model, sequences, problem_.shape.sequence, passes.times.layer, recompute);
      passes.layer_kept[at] = StashBytes(local, BlockOfLayer(0), rows, cost.activations, recompute);
    }
  }
}

void StageTable::FindWays(StageKind& kind) const {
  std::vector<UnitSaving> all;
  for (const Recompute recompute : kRecomputesByTime) {
    for (const ActivationsHome home : {ActivationsHome::kDevice, ActivationsHome::kHost}) {
      if (home == ActivationsHome::kHost && kind.fetch_bytes_per_second == 0) continue;
      for (const bool by_rows : {false, true}) {
        if (by_rows && kind.passes[1].empty()) continue;
        all.push_back({.recompute = recompute, .activations_home = home, .sequence_parallel = by_rows});
      }
    }
    if (!problem_.constraints.saves_memory) break;
  }
  for (int size = 0; size < static_cast<int>(problem_.micro_batch_sizes.size()); ++size) {
    // Of a layer, as many as there are.
    std::vector<std::pair<double, UnitSaving>> timed;
    for (const UnitSaving& saving : all) {
      const StageForm layer{.kind = static_cast<int>(&kind - kinds_.data()),
                            .size = size,
                            .from_end = kFewestFromEndToStore,
                            .saving = saving};
      timed.push_back({PassSeconds(layer), saving});
    }
    std::stable_sort(timed.begin(), timed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<UnitSaving>& ways = kind.ways.emplace_back();
    for (const auto& [seconds, saving] : timed) ways.push_back(saving);
  }
}

void StageTable::FindHost(StageKind& kind) const {
  const DeviceCost& first = problem_.devices[kind.devices[0]];
  if (!problem_.constraints.saves_memory || !CopiesAreMeasured(first)) return;
  kind.fetch_bytes_per_second = first.fetch_bytes_per_second;
  kind.store_bytes_per_second = first.store_bytes_per_second;
  kind.layer = SizeOf(Dtype::kF32) * SegmentElements(LocalModel(problem_.shape.model, kind.shares[0]),
                                                     SegmentOfBlock(BlockOfLayer(0)));
  if (first.host_memory == Bytes{0}) return;
  // Hosts of a class may have unlike numbers of other devices.
  std::map<int, int> devices_on;
  for (const DeviceCost& device : problem_.devices) ++devices_on[device.host];
  int most = 1;
  for (const std::vector<int>& devices : classes_[kind.device_class].hosts) {
    const int host = problem_.devices[devices[0]].host;
    if (host >= 0) most = std::max(most, devices_on[host]);
  }
  kind.host_memory = {first.host_memory.value / most};
}

void StageTable::TabulateMessages() {
  const size_t count = kinds_.size();
  messages_.assign(2 * count * count, std::vector<double>(problem_.micro_batch_sizes.size(), 0));
  // A device of a class on another host than that of `kind`; -1: there is none.
  const auto elsewhere = [&](const StageKind& kind, int device_class) {
    const int host = problem_.devices[kind.devices[0]].host;
    for (const std::vector<int>& devices : classes_[device_class].hosts) {
      const bool other = problem_.devices[devices[0]].host != host || host < 0;
      if (other && devices[0] != kind.devices[0]) return devices[0];
    }
    return -1;
  };
  const auto beside = [&](const StageKind& kind, int device_class) {
    const int host = problem_.devices[kind.devices[0]].host;
    for (const std::vector<int>& devices : classes_[device_class].hosts) {
      if (host < 0 || problem_.devices[devices[0]].host != host) continue;
      for (const int d : devices) {
        if (std::find(kind.devices.begin(), kind.devices.end(), d) == kind.devices.end()) return d;
      }
    }
    return -1;
  };
  for (size_t from = 0; from < count; ++from) {
    for (size_t to = 0; to < count; ++to) {
      const StageKind &sender = kinds_[from], &receiver = kinds_[to];
      const int far = elsewhere(sender, receiver.device_class), near = beside(sender, receiver.device_class);
      for (size_t size = 0; size < problem_.micro_batch_sizes.size(); ++size) {
        const Dtype dtype = NarrowerOf(sender.cost.activations, receiver.cost.activations);
        const double bytes = static_cast<double>(SizeOf(dtype).value) * problem_.micro_batch_sizes[size] *
                             problem_.shape.sequence * problem_.shape.model.hidden;
        // Each rank sends its rows to those that have them; the fewer ends carry all.
        const double part = bytes / std::min(sender.degree, receiver.degree);
        for (const bool same_host : {false, true}) {
          int other = same_host ? near : far;
          if (other < 0) other = same_host ? far : near;
          if (other < 0) continue;
          messages_[(from * count + to) * 2 + (same_host ? 1 : 0)][size] =
              TransferSecondsTo(receiver, other, sender, part) +
              (scope_.of_bounds ? 0 : receiver.gather_seconds[size]);
        }
      }
    }
  }
}

double StageTable::TransferSecondsTo(const StageKind& receiver, int device, const StageKind& sender,
                                     double bytes) const {
  const LinkModel& transfer = problem_.links.Between(sender.devices[0], device).transfer;
  const double latency_seconds = transfer.LatencySeconds(), seconds = transfer.Seconds(bytes);
  if (scope_.of_bounds) return seconds;
  const auto at_once = [&](const StageKind& kind) {
    const DeviceClass& of = classes_[kind.device_class];
    const double of_routes = static_cast<double>(scope_.most_routes) * kind.degree;
    AtOnce at_once;
    for (const WayLevel level : kWayLevels)
      at_once[level] = std::min<double>(of_routes, level == WayLevel::kHost ? of.most_on_host : of.devices);
    return at_once;
  };
  const double slowdown = memories_.ways().SlowdownOfMessage(sender.devices[0], at_once(sender), device,
                                                             at_once(receiver), transfer.BytesPerSecond());
  return latency_seconds + slowdown * (seconds - latency_seconds);
}

double StageTable::ForwardSeconds(const StageForm& stage) const {
  const StageKind& kind = kinds_[stage.kind];
  const BlockTimes& times = kind.PassesOf(stage.saving, stage.size).times;
  double layers = stage.layers * times.layer.forward_seconds;
  if (CountsCopies(stage)) {
    const LayerCopies copies = CopiesOf(stage.layers, stage.saving.window_layers, optimizer_share(stage));
    layers = std::max(layers, copies.forward_fetched * kind.FetchSeconds());
  }
  return layers + (stage.first ? times.embedding.forward_seconds : 0) +
         (stage.from_end == 1 ? times.head.forward_seconds : 0);
}

double StageTable::WaySeconds(const StageForm& stage) const {
  const bool waits = stage.from_end > 1 && stage.layers > 0;
  const StageKind& kind = kinds_[stage.kind];
  // Nobody has to have all rows who passes his own; of bounds messages do not have it.
  const int gathers = scope_.of_bounds && !stage.saving.sequence_parallel
                          ? (stage.first ? 0 : 1) + (stage.from_end > 1 ? 1 : 0)
                          : 0;
  return PassSeconds(stage) + gathers * kind.gather_seconds[stage.size] - (waits ? AheadSeconds(stage) : 0);
}

// Bounds count as much as any way to recompute has: what takes least altogether may be more layers of which each takes less.
double StageTable::AheadSeconds(const StageForm& stage) const {
  const auto& of_layer = kinds_[stage.kind].PassesOf(stage.saving, stage.size).layer_recompute_seconds;
  const double again = of_layer[static_cast<int>(stage.saving.recompute)];
  if (!scope_.of_bounds) return again;
  return std::min(stage.saving.RecomputedOf(stage.layers) * again,
                  of_layer[static_cast<int>(Recompute::kLayers)]);
}

double StageTable::BackwardSeconds(const StageForm& stage) const {
  const StageKind& kind = kinds_[stage.kind];
  const StageKind::Passes& passes = kind.PassesOf(stage.saving, stage.size);
  const BlockTimes& times = passes.times;
  const double again = passes.layer_recompute_seconds[static_cast<int>(stage.saving.recompute)];
  double layers =
      stage.layers * times.layer.backward_seconds + stage.saving.RecomputedOf(stage.layers) * again;
  if (CountsCopies(stage)) {
    const LayerCopies copies = CopiesOf(stage.layers, stage.saving.window_layers, optimizer_share(stage));
    layers = std::max({layers, copies.backward_fetched * kind.FetchSeconds(),
                       copies.backward_stored * kind.StoreSeconds()});
  }
  const double computed = layers + (stage.first ? times.embedding.backward_seconds : 0) +
                          (stage.from_end == 1 ? times.head.backward_seconds : 0);
  const double stored = StoredActivationsSeconds(stage);
  return stored > 0 ? std::max(computed, stored - ForwardSeconds(stage)) : computed;
}

double StageTable::WeightGradientSeconds(const StageForm& stage) const {
  if (stage.saving.recompute != Recompute::kNone) return 0;
  const BlockTimes& times = kinds_[stage.kind].PassesOf(stage.saving, stage.size).times;
  return stage.layers * times.layer.weight_gradient_seconds +
         (stage.first ? times.embedding.weight_gradient_seconds : 0) +
         (stage.from_end == 1 ? times.head.weight_gradient_seconds : 0);
}

Bytes StageTable::KeptBytes(const StageForm& stage) const {
  const StageKind::Passes& passes = kinds_[stage.kind].PassesOf(stage.saving, stage.size);
  const int again = stage.saving.RecomputedOf(stage.layers);
  return again * passes.layer_kept[static_cast<int>(stage.saving.recompute)] +
         (stage.layers - again) * passes.layer_kept[static_cast<int>(Recompute::kNone)] +
         (stage.first ? passes.embedding_kept : Bytes{});
}

// In each period of 1F1B one micro-batch's go there and those of another come back, beside all that is computed.
double StageTable::StoredActivationsSeconds(const StageForm& stage) const {
  if (stage.saving.activations_home == ActivationsHome::kDevice || scope_.of_bounds ||
      stage.from_end < kFewestFromEndToStore)
    return 0;
  const StageKind& kind = kinds_[stage.kind];
  return static_cast<double>(KeptBytes(stage).value) /
         std::min(kind.fetch_bytes_per_second, kind.store_bytes_per_second);
}

int64_t StageTable::Parameters(const StageForm& stage) const {
  return stage.layers * layer_parameters_ + (stage.first ? embedding_parameters_ : 0) +
         (stage.from_end == 1 ? head_parameters_ : 0) +
         (stage.first || stage.from_end == 1 ? tied_parameters_ : 0);
}

double StageTable::UpdateSeconds(const StageForm& stage) const {
  const StageKind& kind = kinds_[stage.kind];
  const double updates = optimizer_share(stage) * static_cast<double>(Parameters(stage)) *
                         kind.cost.update_seconds_per_parameter;
  if (!CountsCopies(stage)) return updates;
  const LayerCopies copies = CopiesOf(stage.layers, stage.saving.window_layers, optimizer_share(stage));
  return std::max(
      {updates, copies.end_fetched * kind.FetchSeconds(), copies.end_stored * kind.StoreSeconds()});
}

RankMemory StageMemories::Of(const StageKind& kind, const StageForm& stage, int routes) {
  // Of more than are under way at once 1F1B keeps no more.
  if (schedule_ != Schedule::kGPipe) routes = 1;
  const int sequences = routes * problem_.micro_batch_sizes[stage.size];
  const int micro_batches = std::max(1, (problem_.shape.global_batch_sequences + sequences - 1) / sequences);
  Line& line = LineOf(stage, kind, micro_batches);
  RankMemory memory = line.few;
  if (line.layers < stage.layers) {
    if (!line.next) line.next = InWindows(kind, WithLayers(stage, line.layers + 1, 0), micro_batches);
    Grow(memory, *line.next, stage.layers - line.layers);
  }
  const int again = stage.saving.recomputed_layers;
  if (again == 0 || again >= stage.layers) return memory;
  if (!line.but_one)
    line.but_one = InWindows(kind, WithLayers(stage, line.layers, line.layers - 1), micro_batches);
  memory.activations += (stage.layers - again) * (line.but_one->activations - line.few.activations);
  memory.host += (stage.layers - again) * (line.but_one->host - line.few.host);
  return memory;
}

StageMemories::Line& StageMemories::LineOf(const StageForm& stage, const StageKind& kind, int micro_batches) {
  const bool is_alone = stage.first && stage.from_end == 1;  // and has all layers
  const int few = is_alone ? stage.layers
                           : std::min(stage.layers, stage.saving.window_layers > 0 ? kFewestWindows + 3 : 2);
  const Key key = {kind.devices[0], kind.degree,    stage.size,           few,
                   stage.first,     stage.from_end, KindOf(stage.saving), stage.saving.window_layers,
                   micro_batches};
  const auto known = lines_.find(key);
  if (known != lines_.end()) return known->second;
  return lines_.emplace(key, Line{few, InWindows(kind, WithLayers(stage, few, 0), micro_batches), {}, {}})
      .first->second;
}

RankMemory StageMemories::InWindows(const StageKind& kind, const StageForm& stage, int micro_batches) {
  const int more = stage.saving.window_layers - kFewestWindows;
  if (more < 2) return Count(kind, stage, micro_batches);
  // Each window takes as much as the one before.
  StageForm fewest = stage, next = stage;
  fewest.saving.window_layers = kFewestWindows;
  next.saving.window_layers = kFewestWindows + 1;
  RankMemory memory = Count(kind, fewest, micro_batches);
  Grow(memory, Count(kind, next, micro_batches), more);
  return memory;
}

RankMemory StageMemories::Count(const StageKind& kind, const StageForm& stage, int micro_batches) {
  const ModelConfig& model = problem_.shape.model;
  const int sequences = problem_.micro_batch_sizes[stage.size];
  const Dtype stored = kind.cost.activations;
  BufferCounts buffers = buffers_.Of({.schedule = schedule_,
                                      .first = stage.first,
                                      .from_end = stage.from_end,
                                      .micro_batches = micro_batches,
                                      .activations = stored,
                                      .before = stored,
                                      .recompute = stage.saving.recompute,
                                      // Of more windows there are as many buffers.
                                      .windows = std::min(stage.saving.window_layers, kFewestWindows),
                                      .activations_home = stage.saving.activations_home});
  buffers.windows = stage.saving.window_layers;
  buffers.recomputed_layers = stage.saving.recomputed_layers;
  buffers.narrowest = stored;
  buffers.ranks = kind.degree;
  buffers.sequence_parallel = stage.saving.sequence_parallel;
  const BlockId first_block = stage.first ? model.embedding_block() : BlockOfLayer(0);
  const BlockId end = BlockOfLayer(0) + stage.layers;
  std::vector<BlockRange> chunk = {{first_block, end}};
  if (stage.from_end == 1) {
    // The last layers and the head; all blocks if it is the first stage, too.
    chunk = {{stage.first ? first_block : BlockId(model.head_block() - stage.layers), model.blocks()}};
  }
  return MemoryOf(LocalModel(model, kind.shares[0]), problem_.shape.sequence, chunk, sequences, buffers);
}

RankMemory StageTable::MemoryOf(const StageForm& stage) {
  const StageKind& kind = kinds_[stage.kind];
  RankMemory memory = memories_.Of(kind, stage, scope_.least_routes);
  // A bound takes what others hold for as little as it can be.
  const int windows = scope_.of_bounds ? 0 : stage.saving.window_layers;
  memory.optimizer =
      OptimizerBytes(memory.optimizer, windows, kind.layer, layers_summed_alone_, optimizer_share(stage));
  return memory;
}

StageKeeping StageTable::KeepingOf(const StageForm& stage) {
  const StageKind& kind = kinds_[stage.kind];
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

bool StageTable::Fits(const StageForm& stage) {
  const RankMemory memory = MemoryOf(stage);
  return HasRoomOnHost(stage, memory) && medley::Fits(memory, kinds_[stage.kind].room);
}

// For what forwards keep there; of layers that live there MayLiveOnHost asks.
bool StageTable::HasRoomOnHost(const StageForm& stage, const RankMemory& memory) const {
  const Bytes host_memory = kinds_[stage.kind].host_memory;
  return stage.saving.window_layers > 0 || host_memory == Bytes{0} || memory.host <= host_memory ||
         scope_.of_bounds;
}

bool StageTable::MaySave(const StageForm& stage) {
  if (!Saves(stage.saving, stage)) return false;
  if (stage.saving.window_layers > 0) return scope_.layers_on_hosts && MayLiveOnHost(stage);
  return stage.saving.activations_home == ActivationsHome::kDevice || HasRoomOnHost(stage, MemoryOf(stage));
}

Bytes StageTable::ShortageOf(const StageForm& stage) {
  const RankMemory memory = MemoryOf(stage);
  return memory.total() - LeftFor(memory, kinds_[stage.kind].room);
}

StageShortage StageTable::LeastShortage(StageForm stage) {
  StageShortage least = {.bytes = {std::numeric_limits<int64_t>::max()}};
  const auto consider = [&](const UnitSaving& saving) {
    stage.saving = saving;
    if (!MaySave(stage)) return;
    const Bytes bytes = ShortageOf(stage);
    if (bytes < least.bytes) least = {bytes, saving};
  };
  for (UnitSaving saving : kinds_[stage.kind].ways[stage.size]) {
    consider(saving);
    if (!scope_.layers_on_hosts || saving.activations_home == ActivationsHome::kHost) continue;
    saving.window_layers = kFewestWindows;
    consider(saving);
  }
  return least;
}

// With parameters and gradients of each layer there, and two moments of what it carries.
bool StageTable::MayLiveOnHost(const StageForm& stage) const {
  const StageKind& kind = kinds_[stage.kind];
  if (kind.fetch_bytes_per_second == 0 || stage.layers <= kFewestWindows) return false;
  // Under GPipe all micro-batches pass a layer before the next one, which times here do not know.
  if (memories_.schedule() == Schedule::kGPipe) return false;
  const double needed =
      static_cast<double>(stage.layers * kind.layer.value) * (2 + 2 * optimizer_share(stage));
  return kind.host_memory == Bytes{0} || needed <= static_cast<double>(kind.host_memory.value);
}

int StageTable::MostWindows(StageForm stage) {
  if (!MayLiveOnHost(stage)) return 0;
  const auto fits = [&](int windows) {
    stage.saving.window_layers = windows;
    return Fits(stage);
  };
  if (!fits(kFewestWindows)) return 0;
  // Often the same as of one layer less, or of one place nearer to the end.
  int& known = most_windows_[{stage.kind, stage.size, stage.first, KindOf(stage.saving)}];
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

double StageTable::optimizer_share(const StageForm& stage) const {
  return problem_.constraints.saves_memory ? optimizer_share_ * OwnShare(stage.units) : optimizer_share_;
}

int StageTable::MostLayers(StageForm stage) {
  const std::tuple key = {stage.kind,     stage.size,           stage.first,
                          stage.from_end, KindOf(stage.saving), stage.units};
  const auto known = most_layers_.find(key);
  if (known != most_layers_.end()) return known->second;
  stage.saving.window_layers = 0;
  const auto fits = [&](int layers) {
    stage.layers = layers;
    return Fits(stage);
  };
  int low = -1, high = problem_.shape.model.layers;
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
  for (const UnitSaving& saving : kinds_[stage.kind].ways[stage.size]) {
    if (!Saves(saving, stage)) continue;
    stage.saving = saving;
    const int layers = MostLayers(stage);
    if (layers <= most) continue;
    most = layers;
    all.push_back({saving, most});
    if (most == problem_.shape.model.layers) break;
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
  const std::vector<UnitSaving>& ways = kinds_[stage.kind].ways[stage.size];
  for (const UnitSaving& saving : ways) {
    if (!Saves(saving, stage)) continue;
    stage.saving = saving;
    if (!may_be_faster() || stage.layers > MostLayers(stage)) continue;
    consider(WithFewestRecomputed(stage));
    // Nothing is faster than the fastest with nothing recomputed.
    if (saving == ways.front() && saving.recompute == Recompute::kNone) return least;
  }
  // With nothing recomputed what fits needs no windows.
  if (!scope_.layers_on_hosts || (least && least->recompute == Recompute::kNone)) return least;
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
