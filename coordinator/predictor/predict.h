#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/program.h"

namespace medley {

struct InstructionTime {
  double start_seconds = 0;  // from the start of the step
  double end_seconds = 0;
};

struct RankPrediction {
  std::string device;
  double busy_seconds = 0;  // computing
  RankMemory memory;
  Bytes peak_memory;  // with the ops' own workspace and copies
  Bytes memory_limit;
  std::vector<InstructionTime> timeline;  // parallel to the step program's instructions
};

struct StepPrediction {
  double step_seconds = 0;
  std::vector<RankPrediction> ranks;  // in their order
  double tokens_per_second = 0;
};

// Simulates the step programs of all ranks in virtual time. Resources are shared fairly: devices on one
// processor, and a device's own send and receive each. What computes is slowed down by the other devices of
// its host that compute at that moment (DeviceCost::shared_slowdown). A message starts when both ends are
// ready; an all-reduce when all are.
//
// Pure and deterministic. `plan` must be valid for `problem` (CheckPlan); memory limits are not looked at.
// InvalidArgument: a unit's device or the micro-batch size is not in the problem; a unit has several devices,
// of which nothing has been measured.
// Internal: the programs wait for each other in a circle (a bug in the compiler); names an instruction.
absl::StatusOr<StepPrediction> PredictStep(const PlanningProblem& problem, const Plan& plan);

// The device of that name; null: the problem has none.
const DeviceCost* FindDevice(const PlanningProblem& problem, const std::string& name);

// What a rank needs on `device`: the memory model's total, and the ops' own workspace and copies.
Bytes PeakMemory(const DeviceCost& device, const RankMemory& memory);

// Whether every rank fits the memory of its device. `plan` must be valid for `problem` but for that.
bool FitsMemory(const PlanningProblem& problem, const Plan& plan);

// The step's seconds alone, without timelines: what the planner calls many times.
absl::StatusOr<double> PredictStepSeconds(const PlanningProblem& problem, const Plan& plan);

}  // namespace medley
