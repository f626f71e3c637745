#pragma once
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/transport/transport.h"
#include "runtime/exec/activity_board.h"
#include "runtime/exec/stall_watch.h"
#include "runtime/exec/step_streams.h"
#include "runtime/exec/unit_exchange.h"
#include "runtime/exec/window_source.h"
#include "runtime/job/reduction_choice.h"
#include "runtime/job/training_spec.h"
#include "runtime/model/model_shard.h"
#include "runtime/plan/plan.h"
#include "runtime/program/program.h"

namespace medley {

struct StepOutcome {
  double loss = 0;           // mean over the step's tokens, nats; the same on every unit
  double gradient_norm = 0;  // global, before clipping; 0 when evaluating
  double learning_rate = 0;
  double seconds = 0;
  absl::Time started_at;
  std::vector<MeasuredTime> times;  // parallel to the training program's instructions
};

// Runs one unit's step programs: the worker's half of "one step program, two interpreters".
//
// All units of a plan call the same methods in the same order. Blocks; every wait for a peer ends after `stall_timeout`
// with DeadlineExceeded and a stall report (stall_watch.h), which `warn` gets long before. One thread.
class UnitExecutor {
 public:
  struct Options {
    TrainingSpec spec;
    Plan plan;
    int unit = 0;
    std::vector<ReductionChoice> reductions;            // the same at all units; slices without one: an even ring
    absl::Duration stall_timeout = absl::Minutes(2);  // grows with the length of the steps seen
    absl::Duration stall_warning = absl::Seconds(10);
    AskUnit ask;                                        // what another unit is at; null: nobody is asked
    std::function<void(const std::string&)> warn;       // of a stall that lasts; null: nobody is warned. From any thread
  };
  // `reductions` have been checked against the plan. `shard`, `transport` and `windows` outlive the executor. `transport` has rank `unit` and a rank for each unit.
  UnitExecutor(Options options, ModelShard& shard, Transport& transport, WindowSource& windows);

  // Training step `step` (from 1). InvalidArgument: the loss or the gradient is not finite; then nothing was updated,
  // on any unit.
  absl::StatusOr<StepOutcome> TrainStep(int64_t step);

  // Mean loss over the validation batches; nothing changes.
  absl::StatusOr<double> Evaluate();

  // Sums `values` over all units; the same bits everywhere. Also a barrier.
  absl::Status SumOverUnits(absl::Span<double> values);

  // What the unit is at, for units that ask; from any thread.
  std::shared_ptr<ActivityBoard> activity() const { return board_; }

  const StepProgram& program() const { return train_program_; }
  int unit() const { return options_.unit; }

 private:
  absl::Status Run(const Instruction& instruction, Purpose purpose, int64_t data_step);
  // Units that `instruction` cannot end without.
  std::vector<int> PeersOf(const Instruction& instruction) const;
  // The same, on the board while it runs; a wait that was too long says on whom.
  absl::Status RunWatched(const Instruction& instruction, Purpose purpose, int64_t data_step);
  absl::Status Forward(const Instruction& instruction, Purpose purpose, int64_t data_step);
  absl::Status Backward(const Instruction& instruction);
  // Blocks until the device has done what was submitted: an instruction has ended when its work has.
  absl::Status Finish();
  absl::Status LoadTokens(const Instruction& instruction, Purpose purpose, int64_t data_step);
  absl::Status CollectNorms();
  absl::Status ReduceScalars();
  absl::Status Update();
  StepRun RunProgram(const StepProgram& program, Purpose purpose, int64_t data_step);
  absl::Time Deadline() const;

  const Options options_;
  ModelShard& shard_;
  Transport& transport_;
  WindowSource& windows_;
  const StepProgram train_program_, evaluate_program_;
  const std::vector<int> owned_segments_;
  const std::vector<int> all_units_;
  UnitExchange exchange_;
  std::vector<Fence> gradients_ready_;  // parallel to the training program's slices
  int64_t step_ = 0;
  absl::Duration longest_step_;
  // Squared norm by segment, then the sum of the losses; summed over units by kReduceScalars. Written by one stream at
  // a time, as the program orders it.
  std::vector<double> scalars_;
  const std::shared_ptr<ActivityBoard> board_ = std::make_shared<ActivityBoard>();
  std::unique_ptr<StallWatch> watch_;  // null: nobody is warned
};

}  // namespace medley
