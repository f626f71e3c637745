#include "coordinator/planner/classes/stage_kind.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "coordinator/planner/techniques/sharing.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// `cost`: of such a unit, whose ranks have part of the rows each where they pass micro-batches `by_rows`.
void AddPasses(const PlanningProblem& problem, const DeviceCost& cost, bool by_rows, StageKind& kind) {
  const ModelConfig &model = problem.shape.model, local = LocalModel(model, kind.shares[0]);
  for (size_t size = 0; size < problem.micro_batch_sizes.size(); ++size) {
    const int sequences = problem.micro_batch_sizes[size];
    const int64_t all_rows = int64_t{sequences} * problem.shape.sequence;
    const RowCounts rows = {all_rows, by_rows ? RowsOfMember(all_rows, kind.degree, 0).size() : all_rows};
    StageKind::Passes& passes = kind.passes[by_rows ? 1 : 0].emplace_back();
    passes.times = cost.times[size];
    passes.layer_deferred = DeferredBytes(local, {BlockOfLayer(0), BlockOfLayer(1)}, rows, cost.activations);
    passes.embedding_kept = StashBytes(local, model.embedding_block(), rows, cost.activations);
    for (const Recompute recompute : kRecomputesByTime) {
      const int at = static_cast<int>(recompute);
      passes.layer_recompute_seconds[at] =
          RecomputeSeconds(model, sequences, problem.shape.sequence, passes.times.layer, recompute);
      passes.layer_kept[at] = StashBytes(local, BlockOfLayer(0), rows, cost.activations, recompute);
    }
  }
}

void FindHost(const PlanningProblem& problem, const DeviceClass& of, StageKind& kind) {
  const DeviceCost& first = problem.devices[kind.devices[0]];
  if (!problem.constraints.saves_memory || !CopiesAreMeasured(first)) return;
  kind.fetch_bytes_per_second = first.fetch_bytes_per_second;
  kind.store_bytes_per_second = first.store_bytes_per_second;
  kind.layer = SizeOf(Dtype::kF32) * SegmentElements(LocalModel(problem.shape.model, kind.shares[0]),
                                                     SegmentOfBlock(BlockOfLayer(0)));
  if (first.host_memory == Bytes{0}) return;
  // Hosts of a class may have unlike numbers of other devices.
  std::map<int, int> devices_on;
  for (const DeviceCost& device : problem.devices) ++devices_on[device.host];
  int most = 1;
  for (const std::vector<int>& devices : of.hosts) {
    const int host = problem.devices[devices[0]].host;
    if (host >= 0) most = std::max(most, devices_on[host]);
  }
  kind.host_memory = {first.host_memory.value / most};
}

// None: its share of the width was not measured.
std::optional<StageKind> KindOf(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                                int device_class, int degree) {
  const ModelConfig& model = problem.shape.model;
  const DeviceClass& of = classes[device_class];
  const auto host = std::find_if(of.hosts.begin(), of.hosts.end(), [&](const std::vector<int>& devices) {
    return static_cast<int>(devices.size()) >= degree;
  });
  StageKind kind{
      .device_class = device_class, .degree = degree, .devices = {host->begin(), host->begin() + degree}};
  kind.shares = EvenShares(model, degree);
  const PlanningProblem alone = OnDevices(problem, kind.devices);
  SharedUnit unit{.shares = kind.shares};
  for (int member = 0; member < degree; ++member) {
    if (!CostsOf(alone.devices[member], model, kind.shares[member])) return std::nullopt;
    unit.devices.push_back(member);
  }
  kind.room = CostsOf(alone.devices[0], model, kind.shares[0])->room;
  kind.cost = CostOfUnit(alone, unit);
  AddPasses(problem, kind.cost, /*by_rows=*/false, kind);
  if (degree > 1 && problem.constraints.saves_memory) {
    unit.sequence_parallel = true;
    AddPasses(problem, CostOfUnit(alone, unit), /*by_rows=*/true, kind);
  }
  Reductions reductions(alone);
  const int group = degree > 1 ? reductions.GroupOf(unit.devices) : -1;
  for (size_t size = 0; size < problem.micro_batch_sizes.size(); ++size) {
    const int sequences = problem.micro_batch_sizes[size];
    const Bytes activation =
        SizeOf(kind.cost.activations) * (int64_t{sequences} * problem.shape.sequence * model.hidden);
    kind.gather_seconds.push_back(group < 0 ? 0 : reductions.GatherSeconds(group, activation));
  }
  FindHost(problem, of, kind);
  return kind;
}

}  // namespace

bool CanShareByClasses(const ModelConfig& model, int degree) {
  return degree <= model.key_value_head_count() && SharingObjection(model, degree).empty();
}

std::vector<StageKind> StageKindsOf(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                                    int only_degree) {
  std::vector<StageKind> kinds;
  for (int c = 0; c < static_cast<int>(classes.size()); ++c) {
    for (int degree = 1; degree <= classes[c].most_on_host; ++degree) {
      if (only_degree > 0 && degree != only_degree) continue;
      if (degree > 1 && !CanShareByClasses(problem.shape.model, degree)) continue;
      if (std::optional<StageKind> kind = KindOf(problem, classes, c, degree))
        kinds.push_back(*std::move(kind));
    }
  }
  return kinds;
}

}  // namespace medley
