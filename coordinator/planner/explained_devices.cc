#include "coordinator/planner/explained_devices.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/program.h"

namespace medley {
namespace {

// What a rank does of a plan.
struct RankWork {
  Bytes collectives, copies;
  int blocks = 0, micro_batches = 0;
  double forward_flops = 0;
};

RankWork WorkOfRank(const PlanningProblem& problem, const Plan& plan, Rank rank) {
  const StepProgram program = CompileStep(plan, rank, problem.shape, Purpose::kTrain);
  RankWork work{
      .collectives = CollectiveBytes(plan, program, problem.shape),
      .copies =
          RoomOf(problem, plan, rank).CopiesOf(MemoryOfProgram(plan, program, problem.shape).multiplied)};
  const Unit& unit = plan.units[program.unit];
  for (const BlockRange& chunk : unit.chunks) work.blocks += chunk.size();
  const double width = static_cast<double>(ShareOf(plan, rank, problem.shape.model).feed_forward.size()) /
                       problem.shape.model.feed_forward;
  int last_route = -1;
  for (const Visit& visit : program.visits) {
    // One that passes several ranges of the unit is one.
    if (std::exchange(last_route, visit.route) != visit.route) work.micro_batches += visit.micro_batches;
    const double sequences = static_cast<double>(visit.micro_batches) * visit.micro_batch_sequences;
    const BlockRange& chunk = unit.chunks[visit.chunk];
    for (BlockId block = chunk.first; block < chunk.end; ++block) {
      work.forward_flops +=
          width * sequences * WorkOf(problem.shape.model, block, 1, problem.shape.sequence).forward.flops;
    }
  }
  return work;
}

// Of each rank, that of its stand-in.
std::vector<RankWork> WorkOfRanks(const PlanningProblem& problem, const Plan& plan,
                                  const StepPrediction& prediction) {
  std::vector<RankWork> works;
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    const Rank stand_in = prediction.stand_ins[rank];
    works.push_back(stand_in < rank ? works[stand_in] : WorkOfRank(problem, plan, stand_in));
  }
  return works;
}

std::map<std::string, Rank> RanksByDevice(const Plan& plan) {
  std::map<std::string, Rank> rank_of;
  const std::vector<std::string> names = medley::DevicesOf(plan);
  for (size_t rank = 0; rank < names.size(); ++rank) rank_of.emplace(names[rank], static_cast<int>(rank));
  return rank_of;
}

std::vector<Explanation::Device> DevicesOf(const PlanningProblem& problem, const StepPrediction& prediction,
                                           const std::map<std::string, Rank>& rank_of,
                                           const std::vector<RankWork>& works) {
  std::vector<Explanation::Device> devices;
  for (const DeviceCost& cost : problem.devices) {
    Explanation::Device& device = devices.emplace_back();
    device.name = cost.name;
    device.kind = cost.kind;
    device.price_per_hour = cost.price_per_hour;
    device.memory_limit = cost.room.memory;
    device.host_memory = cost.host_memory;
    const auto used = rank_of.find(cost.name);
    if (used == rank_of.end()) continue;
    const Rank rank = used->second;
    device.used = true;
    if (prediction.step_seconds > 0)
      device.busy_share = prediction.ranks[rank].busy_seconds / prediction.step_seconds;
    device.peak_memory = prediction.ranks[rank].peak_memory;
    device.memory = prediction.ranks[rank].memory;
    device.collectives = works[rank].collectives;
    device.copies = works[rank].copies;
    device.blocks = works[rank].blocks;
    device.micro_batches = works[rank].micro_batches;
  }
  return devices;
}

std::vector<Explanation::Kind> KindsOf(const std::vector<Explanation::Device>& devices,
                                       const std::map<std::string, Rank>& rank_of,
                                       const std::vector<RankWork>& works) {
  double all_flops = 0;
  for (const RankWork& work : works) all_flops += work.forward_flops;
  std::vector<Explanation::Kind> kinds;
  for (const Explanation::Device& device : devices) {
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const Explanation::Kind& known) { return known.kind == device.kind; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), Explanation::Kind{.kind = device.kind});
    ++kind->devices;
    if (!device.used) continue;
    ++kind->used;
    kind->busy_share += device.busy_share;
    if (all_flops > 0) kind->work_share += works[rank_of.at(device.name)].forward_flops / all_flops;
    if (device.memory_limit > Bytes{0})
      kind->memory_share = std::max(kind->memory_share, static_cast<double>(device.peak_memory.value) /
                                                            static_cast<double>(device.memory_limit.value));
  }
  for (Explanation::Kind& kind : kinds) kind.busy_share /= std::max(1, kind.used);
  return kinds;
}

}  // namespace

void ExplainDevices(const PlanningProblem& problem, const Plan& plan, const StepPrediction& prediction,
                    Explanation& explanation) {
  const std::vector<RankWork> works = WorkOfRanks(problem, plan, prediction);
  const std::map<std::string, Rank> rank_of = RanksByDevice(plan);
  explanation.devices = DevicesOf(problem, prediction, rank_of, works);
  explanation.kinds = KindsOf(explanation.devices, rank_of, works);
  double busy_share = 0;
  for (const Explanation::Device& device : explanation.devices) busy_share += device.busy_share;
  explanation.bubble_share = 1 - busy_share / static_cast<double>(prediction.ranks.size());
}

}  // namespace medley
