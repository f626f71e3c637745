#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/rank_costing.h"
#include "coordinator/predictor/reductions.h"
#include "coordinator/predictor/shared_ways.h"
#include "coordinator/predictor/step_tasks.h"
#include "coordinator/predictor/task_graph.h"
#include "coordinator/predictor/task_simulation.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/program.h"

namespace medley {

struct InstructionTime {
  double start_seconds = 0;  // from the start of the step
  double end_seconds = 0;
};

// The last pass of a rank in a step that makes gradients.
struct LastBackward {
  double end_seconds = 0;
  bool of_weights_alone = false;  // the gradient of the input was made before
};

// Simulates step programs in virtual time, one plan after another: it compiles what each rank does, tells what each instruction
// takes by itself (RankCosting), makes tasks of them all (StepTasks), has time go by until these are done (TaskSimulation), and then
// knows when each instruction began and ended.
//
// Of a plan with post-validation several steps in a row are simulated, the last of which is what a step is from then on:
// its length is the time from norm to norm, and its times begin with its first instruction.
//
// Keeps its buffers from run to run. Keeps references to `problem` and `reductions` (of this problem;
// without, it has its own), which must outlive it. Not thread-safe.
class StepSimulator {
 public:
  explicit StepSimulator(const PlanningProblem& problem);
  StepSimulator(const PlanningProblem& problem, Reductions& reductions);

  // Seconds of one step of `plan`. Errors as PredictStep's. `stand_ins`: of that plan.
  absl::StatusOr<double> Run(const Plan& plan, const StandIns* stand_ins = nullptr);

  // The step programs of the last successful run, and the times of their instructions; of a rank that is not simulated, none.
  const std::vector<StepProgram>& programs() const { return programs_; }
  InstructionTime TimeOf(Rank rank, int instruction) const;
  // Of that time, what its device computes: the rest goes to what the ranks of a unit exchange.
  double ComputingSeconds(Rank rank, int instruction) const;
  // The last pass of `rank` that makes gradients; of one of its chunks.
  LastBackward LastBackwardOf(Rank rank) const;
  LastBackward LastBackwardOf(Rank rank, int chunk) const;

  // The instructions of all runs together: what they cost.
  int64_t simulated_instructions() const { return simulated_instructions_; }

 private:
  StepSimulator(const PlanningProblem& problem, Reductions* reductions, std::unique_ptr<Reductions> own);

  absl::Status CompileAndCost(const Plan& plan, const StandIns* stand_ins);
  // What is simulated of each rank: its step, or several in a row.
  const std::vector<StepProgram>& simulated() const { return rows_.empty() ? programs_ : rows_; }
  // Of an instruction of a program, in the last step that is simulated.
  const StepTasks::OfInstruction& TasksOf(Rank rank, int instruction) const;
  double SecondsFromNormToNorm() const;
  absl::Status NeverEnds() const;

  const PlanningProblem& problem_;
  const std::unique_ptr<Reductions> own_reductions_;  // null: they are another's
  const std::unordered_map<std::string, int> device_by_name_;
  const SharedWays ways_;
  const RankCosting costing_;
  TaskGraph graph_;
  StepTasks tasks_;
  TaskSimulation simulation_;

  std::vector<StepProgram> programs_;
  std::vector<StepProgram> rows_;  // with post-validation; the last step of each is that of programs_
  std::vector<RankCost> costs_;
  double origin_seconds_ = 0;  // when the step begins whose times are told
  int64_t simulated_instructions_ = 0;
};

}  // namespace medley
