#include "coordinator/predictor/stage_groups.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/base/bytes.h"
#include "runtime/base/dtype.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/plan/part_of_plan.h"
#include "runtime/ir/program/gradient_slices.h"

namespace medley {
namespace {

void AddRange(const ModelConfig& model, const BlockTimes& times, BlockRange blocks, const LastBackward& last,
              StageGroup& group) {
  StageGroup::Range range{.blocks = blocks, .last_backward_seconds = last.end_seconds};
  for (BlockId block = blocks.first; block < blocks.end; ++block) {
    const PassTimes& passes = TimesOf(times, model, block);
    range.forward_seconds.push_back(passes.forward_seconds);
    double seconds = last.of_weights_alone ? passes.weight_gradient_seconds : passes.backward_seconds;
    // Its parameters and gradients come before it.
    if (group.layers_on_host > 0 && model.is_layer(block))
      seconds = std::max(seconds, 2 * group.fetch_seconds);
    range.backward_before_seconds.push_back(range.backward_before_seconds.back() + seconds);
  }
  group.ranges.push_back(std::move(range));
}

// What a group takes, by the first rank of its unit in the simulated set.
absl::Status AddCosts(const SimulatedSet& simulated, Rank rank,
                      const std::vector<LastBackward>& last_backwards, StageGroup& group) {
  const PlanningProblem& alone = simulated.alone;
  const ModelConfig& model = alone.shape.model;
  const Unit& unit = *group.unit;
  const DeviceCost& device = alone.devices[rank];
  const ModelShare share = ShareOf(simulated.set, rank, model);
  const std::optional<RankCosts> costs = CostsOf(device, model, share);
  const auto size =
      std::find(alone.micro_batch_sizes.begin(), alone.micro_batch_sizes.end(), group.sequences);
  if (!costs || size == alone.micro_batch_sizes.end())
    return absl::InvalidArgumentError(absl::StrCat(device.name, " was not measured so"));
  const ModelConfig local = LocalModel(model, share);
  if (unit.lives_on_host()) {
    const Bytes layer = SizeOf(Dtype::kF32) * SegmentElements(local, SegmentOfBlock(BlockOfLayer(0)));
    group.layers_on_host = LayersOf(unit, model);
    group.fetch_seconds = static_cast<double>(layer.value) / device.fetch_bytes_per_second;
    group.store_seconds = static_cast<double>(layer.value) / device.store_bytes_per_second;
  }
  const BlockTimes& times = costs->times[size - alone.micro_batch_sizes.begin()];
  for (size_t c = 0; c < unit.chunks.size(); ++c) {
    AddRange(model, times, unit.chunks[c], last_backwards[c], group);
    group.last_backward_seconds = std::max(group.last_backward_seconds, last_backwards[c].end_seconds);
  }
  for (const SegmentId segment : SegmentsOf(model, unit.chunks))
    group.parameters += SegmentElements(local, segment);
  group.norm_seconds_per_parameter = costs->norm_seconds_per_parameter;
  group.update_seconds_per_parameter = costs->update_seconds_per_parameter;
  return absl::OkStatus();
}

}  // namespace

double StageGroup::CompleteSeconds(const ModelConfig& model, SegmentId segment) const {
  const BlockId block = CompletedBy(model, unit->chunks, segment);
  const auto range =
      std::find_if(ranges.begin(), ranges.end(), [&](const Range& of) { return block < of.blocks.end; });
  // What is summed in host memory is stored there first.
  return range->last_backward_seconds - range->backward_before_seconds[block - range->blocks.first] +
         store_seconds;
}

// Of what it counts of sums, layers are fetched once more.
double StageGroup::NormSeconds(double computing_seconds, bool sums) const {
  const bool counts = computing_seconds > 0 && sums;
  return std::max(computing_seconds, counts ? layers_on_host * fetch_seconds : 0.0);
}

// Parameters, gradients and the moments of its part come, and but for gradients they go, a layer behind another; the first
// one comes before anything is updated, and the last one goes when all is.
double StageGroup::UpdateSeconds(double own_part) const {
  const double moments = 2 * own_part;
  const double updates = own_part * static_cast<double>(parameters) * update_seconds_per_parameter;
  if (layers_on_host == 0) return updates;
  const double fetched = layers_on_host * (2 + moments) * fetch_seconds,
               stored = layers_on_host * (1 + moments) * store_seconds;
  return std::max({updates + (2 + moments) * fetch_seconds + (1 + moments) * store_seconds,
                   fetched + (1 + moments) * store_seconds, stored + (2 + moments) * fetch_seconds});
}

void StageGroup::Delay(double seconds) {
  last_backward_seconds += seconds;
  for (Range& range : ranges) range.last_backward_seconds += seconds;
}

absl::Status AddGroups(const Plan& plan, const std::vector<std::vector<int>>& devices_of_unit,
                       const std::vector<std::vector<int>>& sets, const SimulatedSet& first,
                       StageGroups& groups) {
  const int first_group = static_cast<int>(groups.all.size());
  groups.all.resize(groups.all.size() + first.set.units.size());
  StageGroup* const of_units = groups.all.data() + first_group;
  for (const std::vector<int>& set : sets) {
    const std::vector<UnitId> units = UnitsOf(plan, set);
    for (size_t u = 0; u < units.size(); ++u) {
      StageGroup& group = of_units[u];
      if (group.devices.empty() || units[u] < group.first_unit) group.first_unit = units[u];
      group.devices.push_back(devices_of_unit[units[u]].front());
    }
  }
  GroupsOfKind& kind =
      groups.kinds.emplace_back(GroupsOfKind{first_group, static_cast<int>(groups.all.size()), {}});
  for (size_t r = 0; r < first.set.routes.size(); ++r) {
    const Route& route = first.set.routes[r];
    std::vector<GroupsOfKind::Stage>& stages = kind.routes.emplace_back();
    BlockId at = 0;
    for (const UnitId u : route.units) {
      const int range = ChunkFrom(first.set.units[u], at);
      at = first.set.units[u].chunks[range].end;
      stages.push_back({first_group + u, range});
      StageGroup& group = of_units[u];
      group.sequences = std::max(group.sequences, route.micro_batch_sequences);
    }
  }
  const std::vector<UnitId> units = UnitsOf(plan, sets.front());
  std::vector<int> device_of_rank(first.alone.devices.size());
  std::iota(device_of_rank.begin(), device_of_rank.end(), 0);
  const SumsAtOnce at_once(first.alone, first.set, device_of_rank);
  Rank rank = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    StageGroup& group = of_units[u];
    group.unit = &plan.units[units[u]];
    group.ranks_on_host = at_once.Over({rank});
    RETURN_IF_ERROR(AddCosts(first, rank, first.last_backwards[u], group));
    rank = rank + group.degree();
  }
  return absl::OkStatus();
}

}  // namespace medley
