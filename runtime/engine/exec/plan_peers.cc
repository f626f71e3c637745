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

// Of segments whose optimizer's state several units share, each holder gives its part to the writer.
void AddWritersPeers(const Plan& plan, const StepProgram& program, const ModelConfig& config,
                     std::set<int>& peers) {
  const std::vector<Rank> writers = SegmentWriters(plan, config);
  for (SegmentId segment = 0; segment < SegmentCount(config); ++segment) {
    const std::vector<UnitId> holders = HoldersOf(plan, config, segment);  // ascending
    if (std::binary_search(holders.begin(), holders.end(), program.unit))
      peers.insert(writers[segment].value());
    if (writers[segment] != program.rank) continue;
    for (const UnitId unit : holders) {
      const std::vector<int> ranks = RanksOf(plan, unit);
      peers.insert(ranks.begin(), ranks.end());
    }
  }
}

}  // namespace

std::vector<int> PlanPeers(const Plan& plan, const StepProgram& train, const TrainingSpec& spec,
                           const std::vector<ReductionChoice>& reductions) {
  std::set<int> peers;
  const auto add_messages = [&](const StepProgram& program) {
    for (const Instruction& instruction : program.instructions) {
      if (instruction.peer >= 0) peers.insert(instruction.peer.value());
    }
  };
  add_messages(train);
  add_messages(CompileStep(plan, train.rank, spec.shape, Purpose::kEvaluate));
  const std::vector<int> unit = RanksOf(plan, train.unit);
  peers.insert(unit.begin(), unit.end());
  const SliceSchedules schedules = SchedulesOf(train, reductions);
  AddStepsPeers(schedules.sums, train.slices, peers);
  AddStepsPeers(schedules.gathers, train.slices, peers);
  AddTreePeers(train.slices, train.rank, peers);
  for (const int peer : ScalarTree(RankCount(plan)).PeersOf(train.rank.value())) peers.insert(peer);
  if (plan.shards_optimizer && !spec.checkpoint_directory.empty())
    AddWritersPeers(plan, train, spec.shape.model, peers);
  peers.erase(train.rank.value());
  return {peers.begin(), peers.end()};
}

}  // namespace medley
