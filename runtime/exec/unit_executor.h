#pragma once
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/transport/transport.h"
#include "runtime/exec/host_mirror.h"
#include "runtime/exec/step_streams.h"
#include "runtime/exec/window_source.h"
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
// All units of a plan call the same methods in the same order. Blocks; every wait for a peer ends after
// `stall_timeout` with DeadlineExceeded naming peer, instruction and micro-batch. One thread.
class UnitExecutor {
 public:
  struct Options {
    TrainingSpec spec;
    Plan plan;
    int unit = 0;
    absl::Duration stall_timeout = absl::Minutes(2);  // grows with the length of the steps seen
  };
  // `shard`, `transport` and `windows` outlive the executor. `transport` has rank `unit` and a rank for each unit.
  UnitExecutor(Options options, ModelShard& shard, Transport& transport, WindowSource& windows);

  // Training step `step` (from 1). InvalidArgument: the loss or the gradient is not finite; then nothing was updated,
  // on any unit.
  absl::StatusOr<StepOutcome> TrainStep(int64_t step);

  // Mean loss over the validation batches; nothing changes.
  absl::StatusOr<double> Evaluate();

  // Sums `values` over all units; the same bits everywhere. Also a barrier.
  absl::Status SumOverUnits(absl::Span<double> values);

  const StepProgram& program() const { return train_program_; }
  int unit() const { return options_.unit; }

 private:
  absl::Status Run(const Instruction& instruction, Purpose purpose, int64_t data_step);
  absl::Status Forward(const Instruction& instruction, Purpose purpose, int64_t data_step);
  absl::Status Backward(const Instruction& instruction);
  HostMirror& MirrorOf(ModelShard::Boundary boundary, int slot) { return mirrors_[static_cast<int>(boundary)][slot]; }
  // Blocks until the device has done what was submitted: an instruction has ended when its work has.
  absl::Status Finish();
  absl::Status LoadTokens(const Instruction& instruction, Purpose purpose, int64_t data_step);
  absl::Status Transfer(const Instruction& instruction);
  absl::Status Reduce(int slice);
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
  std::vector<HostMirror> mirrors_[4];       // by boundary, slot
  std::vector<HostMirror> gradient_mirrors_;  // parallel to the training program's slices
  int64_t step_ = 0;
  absl::Duration longest_step_;
  // Squared norm by segment, then the sum of the losses; summed over units by kReduceScalars. Written by one stream at
  // a time, as the program orders it.
  std::vector<double> scalars_;
};

}  // namespace medley
