#include "coordinator/problem/predicted_lanes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace medley {
namespace {

constexpr double kSameTime = 1e-9;  // of the step

MicroBatchId FirstMicroBatch(const Visits& visits) {
  MicroBatchId first = visits.empty() ? MicroBatchId(0) : visits.front().first_micro_batch;
  for (const Visit& visit : visits) first = std::min(first, visit.first_micro_batch);
  return first;
}

// One rank's part of a prediction.
struct RankStep {
  std::string kind;
  const RankPrediction* prediction;
  StepProgram program;
  MicroBatchId first_micro_batch = FirstMicroBatch(program.visits);

  // From the first that visits the rank; -1: of none.
  int CountedMicroBatch(const Instruction& instruction) const {
    return instruction.micro_batch < 0 ? -1 : instruction.micro_batch.value() - first_micro_batch.value();
  }
};

bool DoTheSame(const RankStep& a, const RankStep& b, double most_apart_seconds) {
  const std::vector<Instruction>&of_a = a.program.instructions, &of_b = b.program.instructions;
  if (a.kind != b.kind || of_a.size() != of_b.size() ||
      a.prediction->peak_memory != b.prediction->peak_memory ||
      a.prediction->memory_limit != b.prediction->memory_limit)
    return false;
  for (size_t i = 0; i < of_a.size(); ++i) {
    const InstructionTime &time_of_a = a.prediction->timeline[i], &time_of_b = b.prediction->timeline[i];
    if (of_a[i].kind != of_b[i].kind || of_a[i].stream != of_b[i].stream || of_a[i].chunk != of_b[i].chunk ||
        of_a[i].blocks != of_b[i].blocks || of_a[i].bytes != of_b[i].bytes ||
        a.CountedMicroBatch(of_a[i]) != b.CountedMicroBatch(of_b[i]) ||
        std::abs(time_of_a.start_seconds - time_of_b.start_seconds) > most_apart_seconds ||
        std::abs(time_of_a.end_seconds - time_of_b.end_seconds) > most_apart_seconds)
      return false;
  }
  return true;
}

// Empties the lanes for which there is no room.
void LeaveOut(std::vector<PredictedLane>& lanes, int64_t most_told) {
  std::vector<size_t> order(lanes.size());
  std::iota(order.begin(), order.end(), 0);
  std::set<std::string> kinds;
  std::stable_partition(order.begin(), order.end(),
                        [&](size_t lane) { return kinds.insert(lanes[lane].kind).second; });
  int64_t told = 0;
  for (const size_t l : order) {
    PredictedLane& lane = lanes[l];
    const int64_t more = static_cast<int64_t>(lane.instructions.size() + lane.memory.size());
    if (told + more <= most_told) {
      told += more;
      continue;
    }
    lane.left_out = true;
    lane.instructions.clear();
    lane.times.clear();
    lane.memory.clear();
  }
}

}  // namespace

std::vector<PredictedLane> PredictedLanesOf(const PlannedJob& planned, const TrainingShape& shape,
                                            int64_t most_told) {
  std::map<std::string, std::string> kinds;  // by device
  for (const Explanation::Device& device : planned.report.explanation.devices)
    kinds[device.name] = device.kind;
  std::vector<RankStep> firsts;  // of the lanes
  std::vector<PredictedLane> lanes;
  // Only lanes of one kind with as many instructions are worth comparing.
  std::map<std::pair<std::string, size_t>, std::vector<size_t>> lanes_by_form;
  std::map<Rank, size_t> lane_of_stand_in;
  const std::vector<Rank>& stand_ins = planned.prediction.stand_ins;
  for (Rank rank = 0; rank < RankCount(planned.plan); ++rank) {
    if (const Rank stand_in = stand_ins[rank]; stand_in < rank) {
      const Visits visits = VisitsOf(planned.plan, PlaceOf(planned.plan, rank).unit);
      lanes[lane_of_stand_in.at(stand_in)].ranks.push_back({rank, FirstMicroBatch(visits)});
      continue;
    }
    RankStep step = {.kind = kinds[DeviceOf(planned.plan, rank)],
                     .prediction = &planned.prediction.ranks[rank],
                     .program = CompileStep(planned.plan, rank, shape, Purpose::kTrain)};
    std::vector<size_t>& alike = lanes_by_form[{step.kind, step.program.instructions.size()}];
    const auto lane = std::find_if(alike.begin(), alike.end(), [&](size_t l) {
      return DoTheSame(step, firsts[l], kSameTime * planned.prediction.step_seconds);
    });
    if (lane != alike.end()) {
      lanes[*lane].ranks.push_back({rank, step.first_micro_batch});
      lane_of_stand_in[rank] = *lane;
      continue;
    }
    alike.push_back(lanes.size());
    lane_of_stand_in[rank] = lanes.size();
    lanes.push_back({.kind = step.kind,
                     .ranks = {{rank, step.first_micro_batch}},
                     .left_out = false,
                     .instructions = {},
                     .times = step.prediction->timeline,
                     .memory = MemoryUseOf(planned.plan, step.program, step.prediction->timeline, shape)});
    firsts.push_back(std::move(step));
  }
  for (size_t l = 0; l < lanes.size(); ++l) lanes[l].instructions = std::move(firsts[l].program.instructions);
  LeaveOut(lanes, most_told);
  return lanes;
}

}  // namespace medley
