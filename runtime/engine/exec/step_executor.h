#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/transport/transport.h"
#include "runtime/device/rank_group.h"
#include "runtime/engine/exec/activity_board.h"
#include "runtime/engine/exec/device_order.h"
#include "runtime/engine/exec/device_passes.h"
#include "runtime/engine/exec/instruction_peers.h"
#include "runtime/engine/exec/stall_watch.h"
#include "runtime/engine/exec/step_exchange.h"
#include "runtime/engine/exec/step_programs.h"
#include "runtime/engine/exec/step_streams.h"
#include "runtime/engine/exec/update_decision.h"
#include "runtime/engine/exec/window_source.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/job/loss_scale.h"
#include "runtime/ir/job/reduction_choice.h"
#include "runtime/ir/job/training_spec.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/program.h"

namespace medley {

struct StepOutcome {
  // Mean over the step's tokens, nats; the same on every rank, as all that follows to `skipped`.
  double loss = 0;
  double gradient_norm = 0;  // global, before clipping; 0 when evaluating
  double learning_rate = 0;
  bool finish_wished = false;  // by some rank; see Options
  bool skipped = false;        // loss or gradient was not finite: nothing was updated
  int64_t loss_scale = 1;      // that the step's gradients were computed with
  double seconds = 0;
  absl::Time started_at;
  // Parallel to the training program's instructions; empty: the step had other ends (StepEnds), as the first has.
  std::vector<MeasuredTime> times;
};

// Runs one rank's step programs: the worker's half of "one step program, two interpreters".
//
// It submits and does not wait: passes follow each other on the device's queue, copies beside it wait for
// them and are waited for on the device. The host waits only where a network needs bytes that the device
// makes, and at the end of the step. Times of passes are the device's own.
//
// All ranks of a plan call the same methods in the same order. Blocks; within a step every wait for a peer
// ends after `stall_timeout` with DeadlineExceeded and a stall report (stall_watch.h), which `warn` gets long
// before. One thread.
class StepExecutor {
 public:
  struct Options {
    TrainingSpec spec;
    Plan plan;
    Rank rank = 0;
    // That training goes on with, the same at all ranks; none: LossScale::For the job's precision.
    std::optional<LossScale> loss_scale;
    // The same at all ranks; slices without one: an even ring.
    std::vector<ReductionChoice> reductions;
    // At least 20 predicted steps; grows with the length of the steps seen.
    absl::Duration stall_timeout = absl::Minutes(2);
    absl::Duration stall_warning = absl::Seconds(10);
    AskRanks ask;  // what other ranks are at; null: nobody is asked
    // It is told of a stall that lasts, from any thread; null: nobody is warned.
    std::function<void(const std::string&)> warn;
    // It is told once which way gradients are summed, and what the ranks of the unit exchange within passes goes, and
    // why; null: nobody is told.
    std::function<void(const std::string&)> tell;
    // Asked once a step, so that all ranks learn it; null: never.
    std::function<bool()> wishes_to_finish;
  };
  // `reductions` have been checked against the plan. `shard`, `transport` and `windows` outlive the executor, which
  // brings the shard together with those of the unit's other ranks. `transport` is of the rank and has at
  // least PlanPeers for its peers.
  StepExecutor(Options options, ModelShard& shard, Transport& transport, WindowSource& windows);

  // Training step `step` (from 1). A step whose loss or gradient is not finite updates nothing, on any rank; if
  // the loss is scaled, the next one is with half the scale. InvalidArgument: there was no scale to halve, for one
  // step in a row more than the job skips.
  //
  // `next_follows`: TrainStep of the next step is called next, if this one succeeds and its outcome is no reason not
  // to; otherwise nothing of it is made ahead, in a plan with post-validation, and nothing is left for it to gather, in one
  // that shards the optimizer's state. The same at all ranks.
  absl::StatusOr<StepOutcome> TrainStep(int64_t step, bool next_follows);

  // Between steps: what their owners updated and have not given to all holders yet goes to these. Of a plan that shards the
  // optimizer's state the shard's parameters are whole behind it alone, and behind a step that no other follows.
  absl::Status CompleteParameters();

  // Mean loss over the validation batches; nothing changes.
  absl::StatusOr<double> Evaluate();

  // Between steps: sums `values` over all ranks; the same bits everywhere. Also a barrier, and for as long as
  // it takes: it ends when all have come, or one is gone.
  absl::Status SumOverRanks(absl::Span<double> values);
  // Between steps, called by all ranks: what `from` gives as `text`, at most 1024 bytes of it, on every rank.
  absl::StatusOr<std::string> TextOf(int from, const std::string& text);

  // What the rank is at, for ranks that ask; from any thread.
  std::shared_ptr<ActivityBoard> activity() const { return board_; }

  // Between steps, for what the ranks exchange beside them.
  Transport& transport() { return transport_; }

  // Of a step between others.
  const StepProgram& program() const { return programs_.train(); }
  Rank rank() const { return options_.rank; }
  // With which the next step is computed.
  const LossScale& loss_scale() const { return decision_.loss_scale(); }
  const Plan& plan() const { return options_.plan; }
  bool wishes_to_finish() const { return options_.wishes_to_finish && options_.wishes_to_finish(); }

 private:
  // What is being run.
  struct Pass {
    const StepProgram& program;
    Purpose purpose;
    int64_t data_step;
    absl::Time started_at;
  };
  // One instruction.
  absl::Status Run(const Pass& pass, int index, MeasuredTime& time);
  // The same, on the board while it runs; a wait that was too long says on whom.
  absl::Status RunWatched(const Pass& pass, int index, MeasuredTime& time);
  // Submits work for the device, behind what it waits for, between two marks of the timer.
  absl::Status Compute(const Pass& pass, int index);
  absl::Status Submit(const Pass& pass, const Instruction& instruction);
  absl::Status Update(const Instruction& instruction);
  // A message or a reduction. `when_ready`: what it needs of this rank is there.
  absl::Status Exchange(const Pass& pass, int index, const std::function<void()>& when_ready);
  // Copies of a layer between its home and its window, or of what a micro-batch keeps.
  absl::Status Copy(const Instruction& instruction, const std::function<void()>& when_ready);
  absl::Status ReduceScalars(const Pass& pass, const Instruction& instruction,
                             const std::function<void()>& when_ready);
  // Tells the board that the instruction which is being computed waits for the unit's other ranks, or not any
  // more.
  void SetWaitsForUnit(bool waits);
  // Blocks until the device has the parameters that the program gathered, if it did.
  absl::Status TakeParameters(const StepProgram& program);
  // Whether the unit's layers live in host memory.
  bool windows_of_layers() const { return program().buffers.windows > 0; }
  // Before the first program.
  absl::Status Open();
  std::unique_ptr<RankGroup> MakeUnitGroup();
  StepRun RunProgram(const StepProgram& program, Purpose purpose, int64_t data_step);
  absl::Time Deadline() const;
  absl::Status Sum(absl::Span<double> values, absl::Time deadline);

  const Options options_;
  ModelShard& shard_;
  Transport& transport_;
  StepPrograms programs_;
  const std::vector<int> all_ranks_, unit_ranks_;
  const InstructionPeers peers_;
  StepExchange exchange_;
  std::unique_ptr<RankGroup> group_;  // the unit's ranks; null: it has one, or nothing has run yet
  const Instruction* computing_ = nullptr;
  DeviceOrder order_;
  DevicePasses passes_;
  bool open_ = false;
  int64_t step_ = 0;
  absl::Duration longest_step_;
  // What kReduceScalars sums over ranks. Written by one stream at a time, as the program orders it.
  struct Scalars {
    std::vector<double> values;  // squared norm by segment, sum of the losses, wishes to finish
    explicit Scalars(int count) : values(count) {}
    double& squared_norm(SegmentId segment) { return values[segment]; }
    double& loss() { return values[values.size() - 2]; }
    double& wishes() { return values.back(); }
    double norm() const;
  };
  Scalars scalars_;
  UpdateDecision decision_;
  bool goes_ahead_ = false;    // this step; of all ranks those that have something to make
  bool went_ahead_ = false;    // what the last step made ahead holds
  bool owes_gathers_ = false;  // owners alone have what the last step updated
  const std::shared_ptr<ActivityBoard> board_ = std::make_shared<ActivityBoard>();
  std::unique_ptr<StallWatch> watch_;  // null: nobody is warned
};

}  // namespace medley
