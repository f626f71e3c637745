#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/step_simulator.h"
#include "runtime/ir/plan/alike_ranks.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/program.h"

namespace medley {

struct RankPrediction {
  std::string device;
  double busy_seconds = 0;  // computing
  // Of its compute stream, for what the ranks of its unit sum and give each other, and waiting for them.
  double exchange_seconds = 0;
  RankMemory memory;
  Bytes peak_memory;  // with the ops' own workspace and copies
  Bytes memory_limit;
  std::vector<InstructionTime> timeline;  // parallel to the step program's instructions
};

struct StepPrediction {
  double step_seconds = 0;
  std::vector<RankPrediction> ranks;  // in their order
  // Of each rank one whose figures are its own, too, but for its device: itself, where all were simulated.
  std::vector<Rank> stand_ins;
  double tokens_per_second = 0;
};

// Simulates the step programs of all ranks in virtual time. Resources are shared fairly: devices on one
// processor, and a device's own send and receive each. What computes is slowed down by the other devices of
// its host that compute at that moment (DeviceCost::shared_slowdown). Sums of gradients take a core of each device that computes on
// cores from what it computes. A message starts when both ends are
// ready; an all-reduce when all are, and so does a pass within which the ranks of a unit sum, or their gather:
// it ends for all of them when the slowest has computed and the sums have taken their time.
//
// Of a plan of more than `most_simulated` ranks those that do the same are simulated once for all (SimulateByStandIns), where that
// knows such plans.
//
// Pure and deterministic. `plan` must be valid for `problem` (CheckPlan); memory limits are not looked at.
// InvalidArgument: a unit's device or the micro-batch size is not in the problem; a device has not been
// measured with its share of the blocks' width; the routes have more messages than can be simulated, some hundred million.
// Internal: the programs wait for each other in a circle (a bug in the compiler); names an instruction.
absl::StatusOr<StepPrediction> PredictStep(const PlanningProblem& problem, const Plan& plan,
                                           int most_simulated = kMostToldAlone);

// The room that `rank` of a plan has on its device, the ops' own workspace for its share of the width counted;
// where that share was not measured, as with whole blocks.
DeviceRoom RoomOf(const PlanningProblem& problem, const Plan& plan, Rank rank);
DeviceRoom RoomOf(const DeviceCost& device, const ModelConfig& model, const ModelShare& share);

// What a rank needs in such room: the memory model's total, and the ops' own workspace and copies.
Bytes PeakMemory(const DeviceRoom& room, const RankMemory& memory);

// Whether every rank fits the memory of its device, and what lives on hosts theirs where it is known. `plan` must be valid for `problem` but for that.
bool FitsMemory(const PlanningProblem& problem, const Plan& plan);

// The step's seconds alone, without timelines: what the planner calls many times.
absl::StatusOr<double> PredictStepSeconds(const PlanningProblem& problem, const Plan& plan,
                                          int most_simulated = kMostToldAlone);

}  // namespace medley
