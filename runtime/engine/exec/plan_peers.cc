#include "runtime/engine/exec/plan_peers.h"

#include <algorithm>
#include <set>

#include "runtime/engine/exec/slice_schedules.h"
#include "runtime/ir/collective/scalar_tree.h"
#include "runtime/ir/program/gradient_slices.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

void AddStepsPeers(const std::vector<CollectiveSchedule>& schedules, const std::vector<GradientSlice>& slices,
                   std::set<int>& peers) {
  for (size_t i = 0; i < schedules.size(); ++i) {
    for (const CollectiveStep& step : schedules[i].steps[*schedules[i].only])
      peers.insert(slices[i].holders[step.peer].value());
  }
}

void AddTreePeers(const std::vector<GradientSlice>& slices, Rank rank, std::set<int>& peers) {
  for (const GradientSlice& slice : slices) {
    const auto own = std::find(slice.holders.begin(), slice.holders.end(), rank) - slice.holders.begin();
    const ScalarTree tree(static_cast<int>(slice.holders.size()));
    for (const int place : tree.PeersOf(static_cast<int>(own))) peers.insert(slice.holders[place].value());
  }
}

std::vector<int> RanksOf(const Plan& plan, UnitId unit) {
  std::vector<int> ranks;
  const int first = FirstRankOf(plan, unit).value();
  for (int member = 0; member < static_cast<int>(plan.units[unit].devices.size()); ++member)
    ranks.push_back(first + member);
  return ranks;
}

// Of segments whose optimizer's state several units share, each holder gives its part to the writer.
void AddWritersPeers(const Plan& plan, Rank rank, const ModelConfig& config, std::set<int>& peers) {
  const std::vector<Rank> writers = SegmentWriters(plan, config);
  for (SegmentId segment = 0; segment < SegmentCount(config); ++segment) {
    std::set<int> holders;
    for (const UnitId unit : HoldersOf(plan, config, segment)) {
      const std::vector<int> ranks = RanksOf(plan, unit);
      holders.insert(ranks.begin(), ranks.end());
    }
    if (writers[segment] == rank) peers.insert(holders.begin(), holders.end());
    if (holders.contains(rank.value())) peers.insert(writers[segment].value());
  }
}

}  // namespace

std::vector<int> PlanPeers(const Plan& plan, Rank rank, const TrainingSpec& spec,
                           const std::vector<ReductionChoice>& reductions) {
  std::set<int> peers;
  for (const Purpose purpose : {Purpose::kTrain, Purpose::kEvaluate}) {
    const StepProgram program = CompileStep(plan, rank, spec.shape, purpose);
    for (const Instruction& instruction : program.instructions) {
      if (instruction.peer >= 0) peers.insert(instruction.peer.value());
    }
    if (purpose != Purpose::kTrain) continue;
    const std::vector<int> unit = RanksOf(plan, program.unit);
    peers.insert(unit.begin(), unit.end());
    const SliceSchedules schedules = SchedulesOf(program, reductions);
    AddStepsPeers(schedules.sums, program.slices, peers);
    AddStepsPeers(schedules.gathers, program.slices, peers);
    AddTreePeers(program.slices, rank, peers);
  }
  for (const int peer : ScalarTree(RankCount(plan)).PeersOf(rank.value())) peers.insert(peer);
  if (plan.shards_optimizer && !spec.checkpoint_directory.empty())
    AddWritersPeers(plan, rank, spec.shape.model, peers);
  peers.erase(rank.value());
  return {peers.begin(), peers.end()};
}

}  // namespace medley
