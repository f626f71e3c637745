#include "coordinator/planner/step_end.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "coordinator/predictor/communication_time.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/holder_runs.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

// There are many sets of more devices, and to choose how one sums takes long.
constexpr size_t kMostExact = 8;

using Holders = absl::InlinedVector<int, 16>;

}  // namespace

double StepEndSeconds(const SearchTables& tables, const std::vector<UnitEnd>& units) {
  const ModelConfig& config = tables.problem().shape.model;
  // When each unit's collective stream is free, and how long it then computes norms.
  std::vector<double> free_seconds(units.size(), 0), norm_seconds(units.size(), 0);
  std::vector<int> devices;
  for (const UnitEnd& unit : units) devices.push_back(unit.device);

  // When the last backward of a unit has gone through the segments from `segment` on.
  const auto complete_seconds = [&](const UnitEnd& unit, SegmentId segment) {
    const BlockId block = CompletedBy(config, {unit.blocks}, segment);
    const BlockRange before = {unit.blocks.first, block}, behind = {block, unit.blocks.end};
    const auto again = [&](BlockRange blocks) {
      return tables.RecomputeSeconds(unit.device_class, unit.size, blocks, unit.saving);
    };
    // The last layers are made again, those behind first.
    return unit.last_backward_seconds - tables.BackwardSeconds(unit.device_class, unit.size, before) -
           (again(unit.blocks) - again(behind));
  };
  const auto reduce = [&](const Holders& holders, SegmentId first_segment, SegmentId end_segment) {
    const DeviceCost& owner = tables.problem().devices[units[holders.front()].device];
    std::vector<int> group_devices;
    for (const int u : holders) group_devices.push_back(units[u].device);
    const int group = holders.size() < 2 ? -1 : tables.reductions().GroupOf(group_devices);
    for (const auto& [first, parameters] : tables.Buckets(first_segment, end_segment)) {
      norm_seconds[holders.front()] += static_cast<double>(parameters) * owner.norm_seconds_per_parameter;
      if (holders.size() < 2) continue;
      double start = 0;
      for (const int u : holders) {
        start = std::max({start, free_seconds[u], complete_seconds(units[u], first)});
      }
      const double done = start + tables.reductions().Seconds(group, parameters);
      for (const int u : holders) free_seconds[u] = done;
    }
  };
  const auto holders_of = [&](SegmentId segment) {
    Holders holders;
    for (int u = 0; u < static_cast<int>(units.size()); ++u) {
      if (HoldsSegment(config, {units[u].blocks}, segment)) holders.push_back(u);
    }
    return holders;
  };
  const auto runs = HolderRunsOf(tables.FilledSegments(), holders_of);
  for (const int r : OrderOfSums(config, runs, [](const auto& run) { return run.holders.size() > 1; }))
    reduce(runs[r].holders, runs[r].first_segment, runs[r].end_segment);

  double reduced_seconds = 0, update_seconds = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    reduced_seconds = std::max(reduced_seconds,
                               std::max(free_seconds[u], units[u].last_backward_seconds) + norm_seconds[u]);
    const DeviceCost& cost = tables.problem().devices[units[u].device];
    update_seconds = std::max(update_seconds, static_cast<double>(tables.Parameters(units[u].blocks)) *
                                                  cost.update_seconds_per_parameter);
  }
  return reduced_seconds + ReduceScalarsSeconds(tables.problem(), devices) + update_seconds;
}

double LeastTiedReductionSeconds(const SearchTables& tables, const std::vector<int>& holders,
                                 TiedHolders kind) {
  const int64_t parameters = tables.TiedParameters();
  if (holders.size() < 2 || parameters == 0) return 0;
  Reductions& reductions = tables.reductions();
  const int group = reductions.GroupOf(holders);
  if (kind == TiedHolders::kTheirOwn && holders.size() <= kMostExact)
    return reductions.Seconds(group, parameters);
  return tables.reduction_floor().SecondsOver(holders, reductions.WaysIn(group),
                                              tables.WireBytes(parameters));
}

}  // namespace medley
