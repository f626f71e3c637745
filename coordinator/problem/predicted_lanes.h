#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/predictor/memory_use.h"
#include "coordinator/problem/planned_job.h"
#include "runtime/ir/program/program.h"

namespace medley {

// A rank that a lane stands for.
struct LaneRank {
  Rank rank;
  MicroBatchId first_micro_batch;  // of the step, of those that visit it; 0 if none does
};

// What one rank does when in a predicted step, and others that do the same at the same times.
struct PredictedLane {
  std::string kind;             // of the devices
  std::vector<LaneRank> ranks;  // ascending; what follows is the first one's
  // Nothing of what follows is told, so that what is told of all lanes stays within its limit.
  bool left_out = false;
  std::vector<Instruction> instructions;
  std::vector<InstructionTime> times;  // parallel to them
  std::vector<MemoryUse> memory;
};

// Instructions and changes of the memory in use that are told of a step, together: about 3 MB as text.
constexpr int64_t kMostToldOfLanes = 100'000;

// The lanes of a planned job's prediction, ordered by their first ranks. Ranks are one lane if their devices
// are of one kind and have as much memory, and their instructions differ in nothing but peers and in where their
// micro-batches are counted from, and in times by no more than a billionth of the step. Where more than
// `most_told` would have to be told, the first lane of each kind goes before the others. `shape` is what the job
// was planned for. Pure.
std::vector<PredictedLane> PredictedLanesOf(const PlannedJob& planned, const TrainingShape& shape,
                                            int64_t most_told = kMostToldOfLanes);

}  // namespace medley
