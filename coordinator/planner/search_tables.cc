#include "coordinator/planner/search_tables.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "coordinator/predictor/communication_time.h"
#include "runtime/base/greatest_that.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/holder_runs.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/program.h"

namespace medley {

SearchTables::SearchTables(const PlanningProblem& problem, Reductions& reductions, UnitRanks ranks,
                           MemorySaving saving)
    : problem_(problem),
      reductions_(reductions),
      ranks_(std::move(ranks)),
      saving_(saving),
      reduction_floor_(problem),
      blocks_(problem.shape.model.blocks()),
      segments_(SegmentCount(problem.shape.model)) {
  const ModelConfig& config = problem.shape.model;
  FindClasses();
  TabulateMessages();
  TabulateSegments();
  tied_ = SegmentElements(config, kTiedSegment);
  untied_before_.push_back(0);
  for (BlockId block = 0; block < blocks_; ++block) {
    untied_before_.push_back(untied_before_.back() + SegmentElements(config, SegmentOfBlock(block)));
  }
  for (int c = 0; c < static_cast<int>(classes_.size()); ++c) {
    const DeviceCost& cost = Cost(c);
    forward_before_.emplace_back();
    backward_before_.emplace_back();
    for (const BlockTimes& times : cost.times) {
      std::vector<double> forward = {0}, backward = {0};
      for (BlockId block = 0; block < blocks_; ++block) {
        const PassTimes& pass = TimesOf(times, config, block);
        forward.push_back(forward.back() + pass.forward_seconds);
        backward.push_back(backward.back() + pass.backward_seconds);
      }
      forward_before_.back().push_back(std::move(forward));
      backward_before_.back().push_back(std::move(backward));
    }
    recompute_seconds_.emplace_back(cost.times.size());
    for (size_t size = 0; size < cost.times.size(); ++size) {
      for (const Recompute recompute : kRecomputesByTime) {
        recompute_seconds_.back()[size][static_cast<int>(recompute)] =
            medley::RecomputeSeconds(config, problem.micro_batch_sizes[size], problem.shape.sequence,
                                     cost.times[size].layer, recompute);
      }
    }
    reduced_after_.emplace_back();
    scattered_and_gathered_.emplace_back();
    for (int size = 0; size < static_cast<int>(cost.times.size()); ++size) {
      reduced_after_.back().push_back(ReducedAfter(c, size, Reduced::kWhole));
      if (saving.shards_optimizer) {
        scattered_and_gathered_.back().push_back(ReducedAfter(c, size, Reduced::kScatteredAndGathered));
      }
    }
    available_.emplace_back((blocks_ + 1) * (blocks_ + 1), 0);
    for (BlockId first = 0; first < blocks_; ++first) {
      for (BlockId end = first + 1; end <= blocks_; ++end) {
        available_.back()[At({first, end})] =
            ranks_.empty() ? cost.room.LeftFor(MultipliedElements(config, {{first, end}}), 0).value : 0;
      }
    }
  }
}

std::vector<double> SearchTables::ReducedAfter(int device_class, int size, Reduced reduced) const {
  std::vector<double> seconds((blocks_ + 1) * (blocks_ + 1), 0);
  const double part = reduced == Reduced::kWhole ? 1 : 0.5;  // of a sum, beside the backward
  const Recompute most = saving_.recomputes ? kRecomputesByTime[kRecomputes - 1] : Recompute::kNone;
  for (BlockId first = 0; first < blocks_; ++first) {
    double least = 0, before = 0;
    for (BlockId block = first; block < blocks_; ++block) {
      const double sum =
          reduction_floor_.Seconds(WireBytes(UntiedParameters({first, block + 1})), block + 1 - first);
      const double beside = BackwardSeconds(device_class, size, {first, block}) +
                            RecomputeSeconds(device_class, size, {first, block}, {.recompute = most});
      least = std::max(least, part * sum - beside);
      // A block's forward waits for its parameters, and is behind those of the blocks before.
      before = std::max(before, (1 - part) * sum - ForwardSeconds(device_class, size, {first, block}));
      seconds[At({first, block + 1})] = before + least;
    }
  }
  return seconds;
}

// Whether layers that live in the memory of the device's host may leave too little for others'.
bool SearchTables::HostMayBind(int device) const {
  const DeviceCost& cost = problem_.devices[device];
  if (!saving_.homes_layers || cost.host_memory == Bytes{0}) return false;
  const int on_host = DevicesOnHostOf(problem_, cost);
  const int layers = problem_.shape.model.layers;
  return on_host > 1 && on_host * HomeBytes(problem_.shape.model, WholeModel(problem_.shape.model), layers) >
                            cost.host_memory;
}

Bytes SearchTables::HomeBytesOf(int device_class, BlockRange blocks) const {
  const ModelConfig& config = problem_.shape.model;
  const int layers = LayersOf(Unit{.chunks = {blocks}}, config);
  if (ranks_.empty()) return HomeBytes(config, WholeModel(config), layers);
  Bytes bytes;
  for (const UnitRank& rank : ranks_[classes_[device_class].front()])
    bytes += HomeBytes(config, rank.share, layers);
  return bytes;
}

bool SearchTables::Interchangeable(int a, int b) const {
  const std::vector<DeviceCost>& devices = problem_.devices;
  if (devices[a].host != devices[b].host && (HostMayBind(a) || HostMayBind(b))) return false;
  if (!SameCost(devices[a], devices[b])) return false;
  if (!ranks_.empty() && ranks_[a] != ranks_[b]) return false;
  // They slow down, and are slowed down by, the devices of their own host.
  if (devices[a].shared_with > 0 && devices[a].host != devices[b].host) return false;
  if (reductions_.ClassOf(a) != reductions_.ClassOf(b)) return false;  // a link differs, or the host
  for (int d = 0; d < static_cast<int>(devices.size()); ++d) {
    if (d == a || d == b) continue;
    // Each on a processor of its own, or both on the same.
    if (devices[a].processor == devices[b].processor) continue;
    if (devices[d].processor == devices[a].processor || devices[d].processor == devices[b].processor)
      return false;
  }
  return true;
}

void SearchTables::TabulateSegments() {
  const ModelConfig& config = problem_.shape.model;
  buckets_.resize((segments_ + 1) * (segments_ + 1));
  for (SegmentId first = 0; first < segments_; ++first) {
    for (SegmentId end = first + 1; end <= segments_; ++end) {
      for (const auto& [first_segment, end_segment] : CutIntoBuckets(config, first, end)) {
        Bucket& bucket = buckets_[first * (segments_ + 1) + end].emplace_back(Bucket{first_segment});
        for (SegmentId s = first_segment; s < end_segment; ++s)
          bucket.parameters += SegmentElements(config, s);
      }
    }
  }
  filled_segments_ = medley::FilledSegments(config);
}

void SearchTables::FindClasses() {
  for (int d = 0; d < static_cast<int>(problem_.devices.size()); ++d) {
    const auto same = std::find_if(classes_.begin(), classes_.end(), [&](const std::vector<int>& members) {
      return Interchangeable(members.front(), d);
    });
    if (same == classes_.end()) {
      classes_.push_back({d});
    } else {
      same->push_back(d);
    }
  }
}

double SearchTables::ForwardSeconds(int device_class, int size, BlockRange blocks) const {
  const std::vector<double>& before = forward_before_[device_class][size];
  return before[blocks.end] - before[blocks.first];
}

double SearchTables::BackwardSeconds(int device_class, int size, BlockRange blocks) const {
  const std::vector<double>& before = backward_before_[device_class][size];
  return before[blocks.end] - before[blocks.first];
}

double SearchTables::RecomputeSeconds(int device_class, int size, BlockRange blocks,
                                      const UnitSaving& saving) const {
  const int layers = saving.RecomputedOf(LayersOf(Unit{.chunks = {blocks}}, problem_.shape.model));
  return layers * recompute_seconds_[device_class][size][static_cast<int>(saving.recompute)];
}

void SearchTables::TabulateMessages() {
  const int count = static_cast<int>(classes_.size());
  message_seconds_.assign(count, std::vector<std::vector<double>>(count));
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from == to && classes_[to].size() < 2) continue;
      const LinkCost& link = problem_.links.Between(classes_[from][0], classes_[to][from == to ? 1 : 0]);
      for (const int size : problem_.micro_batch_sizes) {
        const Dtype dtype = NarrowerOf(Cost(from).activations, Cost(to).activations);
        const double bytes = static_cast<double>(SizeOf(dtype).value) * size * problem_.shape.sequence *
                             problem_.shape.model.hidden;
        message_seconds_[from][to].push_back(TransferSeconds(link, bytes));
      }
    }
  }
}

int64_t SearchTables::Parameters(BlockRange blocks) const {
  const bool tied = blocks.first == 0 || blocks.end == blocks_;
  return UntiedParameters(blocks) + (tied ? tied_ : 0);
}

// The buffers of such a stage that has a layer, or where its layers live in host memory several.
BufferCounts SearchTables::BuffersOf(const Stage& stage, Recompute recompute, int windows) {
  BufferCounts buffers = buffers_.Of({stage.schedule, stage.first, stage.from_end, stage.micro_batches,
                                      stage.activations, stage.before, recompute, windows});
  buffers.narrowest = stage.narrowest;
  return buffers;
}

void SearchTables::StageNeeds::Copy(int from, int to) {
  bytes[to] = bytes[from];
  saving[to] = saving[from];
  for (std::vector<int64_t>& of_one : bytes_by_recompute)
    if (!of_one.empty()) of_one[to] = of_one[from];
  for (std::vector<int>& of_one : fewest_layers)
    if (!of_one.empty()) of_one[to] = of_one[from];
  if (with_windows.empty()) return;
  with_windows[to] = with_windows[from];
  window_bytes[to] = window_bytes[from];
}

const SearchTables::StageNeeds& SearchTables::NeedsOf(const Stage& stage) {
  int64_t key = stage.size;
  key = key * kSchedules + static_cast<int64_t>(stage.schedule);
  key = key * 2 + (stage.first ? 1 : 0);
  key = key * (blocks_ + 1) + stage.from_end;
  key = key * (int64_t{problem_.shape.global_batch_sequences} + 1) + stage.micro_batches;
  key = (key * kDtypes + static_cast<int64_t>(stage.activations)) * kDtypes +
        static_cast<int64_t>(stage.narrowest);
  key = (key * 3 + static_cast<int64_t>(stage.optimizer)) * kDtypes + static_cast<int64_t>(stage.before);
  // Whose they are, from 1; 0: any device's. What is recomputed depends on the room there is, and
  // what a buffer that is too large counts for does, too.
  const DeviceRoom& room = Cost(stage.device_class).room;
  const bool rounds = stage.activations == Dtype::kF32 && room.copy_bytes_per_parameter > 0;
  const bool any_device = ranks_.empty() && !saving_.recomputes && !saving_.homes_layers && !rounds &&
                          room.workspace_by_size.empty() && room.largest_buffer == Bytes{0};
  const int needs = any_device ? 0 : stage.device_class + 1;
  key = key * (static_cast<int64_t>(classes_.size()) + 1) + needs;
  const StageNeeds*& known = needs_by_stage_[key];
  if (known != nullptr) return *known;
  const bool may_have_windows = saving_.homes_layers && CopiesAreMeasured(Cost(stage.device_class));
  std::vector<BufferCounts> buffers, of_windows;
  for (const Recompute recompute : kRecomputesByTime) {
    if (recompute != Recompute::kNone && !saving_.recomputes) continue;
    buffers.push_back(BuffersOf(stage, recompute, 0));
    if (may_have_windows) of_windows.push_back(BuffersOf(stage, recompute, kFewestWindows));
  }
  // Numbers of buffers that differ where something is recomputed follow from those where nothing is.
  std::array<int, 17> buffers_key = {needs,
                                     stage.size,
                                     buffers[0].stash[0],
                                     buffers[0].deferred[0],
                                     buffers[0].input,
                                     buffers[0].output,
                                     buffers[0].input_gradient,
                                     buffers[0].output_gradient,
                                     static_cast<int>(stage.activations),
                                     static_cast<int>(stage.narrowest),
                                     static_cast<int>(stage.optimizer)};
  if (may_have_windows) {
    const BufferCounts& counts = of_windows[0];
    const int numbers[] = {counts.stash[0],       counts.input,           counts.output,
                           counts.input_gradient, counts.output_gradient, counts.stream_gradient};
    std::copy(std::begin(numbers), std::end(numbers), buffers_key.end() - std::size(numbers));
  }
  const auto [entry, inserted] = needs_by_buffers_.try_emplace(buffers_key);
  if (inserted) {
    entry->second.bytes.assign((blocks_ + 1) * (blocks_ + 1), 0);
    entry->second.saving.resize((blocks_ + 1) * (blocks_ + 1));
    for (int r = 0; r < kRecomputes && saving_.recomputes; ++r) {
      entry->second.bytes_by_recompute[r].assign((blocks_ + 1) * (blocks_ + 1), 0);
      entry->second.fewest_layers[r].assign((blocks_ + 1) * (blocks_ + 1), 0);
    }
    if (saving_.homes_layers) {
      entry->second.with_windows.resize((blocks_ + 1) * (blocks_ + 1));
      entry->second.window_bytes.assign((blocks_ + 1) * (blocks_ + 1), kNever);
    }
    for (BlockId first = 0; first < blocks_; ++first) {
      for (BlockId end = first + 1; end <= blocks_; ++end) {
        if (first > BlockOfLayer(0) &&
            end < blocks_) {  // as many layers as from the first one on need as much
          entry->second.Copy(At({BlockOfLayer(0), BlockOfLayer(end - first)}), At({first, end}));
          continue;
        }
        AddNeeds(stage, {first, end}, buffers, entry->second);
        if (may_have_windows) AddWindows(stage, {first, end}, of_windows, buffers[0], entry->second);
      }
    }
  }
  known = &entry->second;
  return *known;
}

// `buffers`: by what is recomputed, from what takes the least time.
void SearchTables::AddNeeds(const Stage& stage, BlockRange blocks, const std::vector<BufferCounts>& buffers,
                            StageNeeds& needs) const {
  const int at = At(blocks);
  const int64_t available = available_[stage.device_class][at];
  const auto seconds = [&](const UnitSaving& saving) {
    return RecomputeSeconds(stage.device_class, stage.size, blocks, saving);
  };
  bool fits = false;
  for (const BufferCounts& counts : buffers) {
    if (counts.recompute != Recompute::kNone && !HaveLayer(problem_.shape.model, {blocks})) continue;
    const int r = static_cast<int>(counts.recompute);
    const int64_t bytes = NeededBytes(stage, blocks, counts);
    UnitSaving saving{.recompute = counts.recompute};
    if (saving_.recomputes) {
      if (counts.recompute != Recompute::kNone && bytes <= available)
        saving.recomputed_layers = FewestLayers(stage, blocks, counts);
      needs.bytes_by_recompute[r][at] = bytes;
      needs.fewest_layers[r][at] = saving.recomputed_layers;
    }
    const bool is_first = &counts == &buffers.front();
    if (fits ? bytes > available || seconds(saving) >= seconds(needs.saving[at])
             : !is_first && bytes >= needs.bytes[at])
      continue;
    needs.bytes[at] = bytes;
    needs.saving[at] = saving;
    fits = bytes <= available;
  }
}

int SearchTables::FewestLayers(const Stage& stage, BlockRange blocks, BufferCounts buffers) const {
  const int64_t available = available_[stage.device_class][At(blocks)];
  const int layers = LayersOf(Unit{.chunks = {blocks}}, problem_.shape.model);
  const int kept = GreatestThat(0, layers - 1, [&](int keeps) {
    buffers.recomputed_layers = layers - keeps;
    return NeededBytes(stage, blocks, buffers) <= available;
  });
  return kept > 0 ? layers - kept : 0;
}

void SearchTables::AddWindows(const Stage& stage, BlockRange blocks, std::vector<BufferCounts> buffers,
                              const BufferCounts& as_it_is, StageNeeds& needs) const {
  const DeviceCost& cost = Cost(stage.device_class);
  const int at = At(blocks), layers = LayersOf(Unit{.chunks = {blocks}}, problem_.shape.model);
  if (layers <= kFewestWindows) return;
  if (cost.host_memory > Bytes{0} && HomeBytesOf(stage.device_class, blocks) > cost.host_memory) return;
  Stage whole = stage;
  whole.optimizer = OwnOptimizer::kAll;
  const int64_t available = available_[stage.device_class][at];
  const bool fits_as_it_is = NeededBytes(whole, blocks, as_it_is) <= available;
  std::vector<UnitSaving>& found = needs.with_windows[at];
  const auto add = [&](BufferCounts counts, int windows) {
    counts.windows = windows;
    UnitSaving saving{.recompute = counts.recompute, .window_layers = windows};
    if (counts.recompute != Recompute::kNone) saving.recomputed_layers = FewestLayers(stage, blocks, counts);
    const double seconds = RecomputeSeconds(stage.device_class, stage.size, blocks, saving);
    // Of what others carry for it depends how many layers fit; with none made again all of its state does.
    const bool dominated = std::any_of(found.begin(), found.end(), [&](const UnitSaving& other) {
      return other.window_layers == windows &&
             (stage.optimizer == OwnOptimizer::kAll || other.recompute == Recompute::kNone) &&
             RecomputeSeconds(stage.device_class, stage.size, blocks, other) <= seconds;
    });
    if (!dominated) found.push_back(saving);
  };
  for (BufferCounts& counts : buffers) {
    const auto needed = [&](int windows) {
      counts.windows = windows;
      return NeededBytes(whole, blocks, counts);
    };
    const int64_t least = needed(kFewestWindows);
    needs.window_bytes[at] = std::min(needs.window_bytes[at], least);
    if (fits_as_it_is || least > available) continue;
    // Each window takes as much as the one before, but for rounding.
    int fits = layers - 1;
    if (layers > kFewestWindows + 1) {
      const int64_t a_window = std::max<int64_t>(1, needed(kFewestWindows + 1) - least);
      fits = static_cast<int>(std::min<int64_t>(fits, kFewestWindows + 1 + (available - least) / a_window));
      while (fits > kFewestWindows && needed(fits) > available) --fits;
    }
    add(counts, kFewestWindows);
    if (fits > kFewestWindows) add(counts, fits);
  }
}

int64_t SearchTables::NeededBytes(const Stage& stage, BlockRange blocks, const BufferCounts& buffers) const {
  const ModelConfig& model = problem_.shape.model;
  const auto memory_of = [&](const ModelConfig& local, int ranks) {
    BufferCounts of_unit = buffers;
    of_unit.ranks = ranks;
    RankMemory memory =
        MemoryOf(local, problem_.shape.sequence, {blocks}, problem_.micro_batch_sizes[stage.size], of_unit);
    if (stage.optimizer == OwnOptimizer::kNone) memory.optimizer = {};
    const bool ends = blocks.first == 0 || blocks.end == blocks_;
    if (stage.optimizer == OwnOptimizer::kAllButTied && ends)
      memory.optimizer -= 2 * SizeOf(Dtype::kF32) * SegmentElements(local, kTiedSegment);
    return memory;
  };
  if (ranks_.empty()) {
    // What is available has room for copies of parameters already, and for the workspace of any size.
    const DeviceRoom& room = Cost(stage.device_class).room;
    const RankMemory memory = memory_of(model, 1);
    const Bytes more = room.LeftFor(MultipliedElements(model, {blocks}), 0) - LeftFor(memory, room);
    return (memory.total() + more).value;
  }
  int64_t most = std::numeric_limits<int64_t>::min();
  const std::vector<UnitRank>& ranks = ranks_[classes_[stage.device_class].front()];
  for (const UnitRank& rank : ranks) {
    const RankMemory memory = memory_of(LocalModel(model, rank.share), static_cast<int>(ranks.size()));
    most = std::max(most, (memory.total() - LeftFor(memory, rank.room)).value);
  }
  return most;
}

}  // namespace medley
