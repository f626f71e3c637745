#include "runtime/engine/exec/step_executor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "comm/collective/all_reduce_scalars.h"
#include "comm/group/library_rank_group.h"
#include "comm/group/staged_rank_group.h"
#include "runtime/base/clock.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/exec/channels.h"
#include "runtime/engine/exec/text_in_numbers.h"

namespace medley {
namespace {

std::vector<int> AllRanks(const Plan& plan) {
  std::vector<int> ranks(RankCount(plan));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::string Where(const Instruction& instruction) {
  std::string text = NameOf(instruction);
  if (instruction.micro_batch >= 0)
    text += absl::StrFormat(" of micro-batch %d", instruction.micro_batch.value());
  if (instruction.peer >= 0) text += absl::StrFormat(" with rank %d", instruction.peer.value());
  return text;
}

// The ranks of each unit of several devices.
std::vector<std::vector<int>> SharedUnits(const Plan& plan) {
  std::vector<std::vector<int>> units;
  for (int u = 0; u < static_cast<int>(plan.units.size()); ++u) {
    if (plan.units[u].devices.size() > 1) units.push_back(RanksOf(plan, u));
  }
  return units;
}

// The node of each rank, of "node/device".
std::vector<std::string> NodesOf(const Plan& plan) {
  std::vector<std::string> nodes = DevicesOf(plan);
  for (std::string& name : nodes) name.resize(std::min(name.size(), name.find('/')));
  return nodes;
}

}  // namespace

StepExecutor::StepExecutor(Options options, ModelShard& shard, Transport& transport, WindowSource& windows)
    : options_(std::move(options)),
      shard_(shard),
      transport_(transport),
      programs_(options_.plan, options_.rank, options_.spec.shape),
      all_ranks_(AllRanks(options_.plan)),
      unit_ranks_(RanksOf(options_.plan, program().unit)),
      peers_(options_.plan, program(), transport),
      exchange_(program(), options_.reductions, SharedUnits(options_.plan), NodesOf(options_.plan),
                options_.spec.communication, shard, transport),
      order_(shard.queue(), programs_.MostInstructions()),
      passes_(program().visits, options_.spec.shape, shard, windows),
      scalars_(ScalarCount(options_.spec.shape.model)),
      decision_(options_.spec, options_.loss_scale.value_or(LossScale::For(options_.spec.precision))) {
  if (options_.warn) {
    watch_ = std::make_unique<StallWatch>(
        *board_, transport_,
        StallWatch::Options{
            .patience = options_.stall_warning, .ask = options_.ask, .report = options_.warn});
  }
}

double StepExecutor::Scalars::norm() const {
  return std::sqrt(std::accumulate(values.begin(), values.end() - 2, 0.0));
}

absl::Time StepExecutor::Deadline() const { return Now() + options_.stall_timeout + 10 * longest_step_; }

StepRun StepExecutor::RunProgram(const StepProgram& program, Purpose purpose, int64_t data_step) {
  if (const absl::Status opened = Open(); !opened.ok()) return {.status = opened};
  std::fill(scalars_.values.begin(), scalars_.values.end(), 0.0);
  if (const absl::Status begun = order_.Begin(program); !begun.ok()) return {.status = begun};
  const Pass pass{program, purpose, data_step, Now()};
  StepRun run = RunStreams(
      program, pass.started_at,
      [&](int index, MeasuredTime& time) {
        return Annotate(RunWatched(pass, index, time), Where(program.instructions[index]));
      },
      [&](const absl::Status& failure) { transport_.Abort(std::string(failure.message())); });
  if (run.status.ok()) run.status = TakeParameters(program);
  if (run.status.ok()) {
    // A step whose times cannot be read has been done all the same.
    const absl::Status read = order_.ReadTimes(run.times);
    if (!read.ok() && options_.warn) options_.warn(absl::StrCat("no times of this step: ", read.message()));
  } else {
    (void)order_.Finish();  // what was submitted uses memory that may now be given back
  }
  return run;
}

absl::Status StepExecutor::TakeParameters(const StepProgram& program) {
  bool gathered = false;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].kind != InstructionKind::kGatherParameters) continue;
    gathered = true;
    RETURN_IF_ERROR(order_.AwaitArrivalOf(static_cast<int>(i)));
  }
  if (!gathered && !windows_of_layers()) return absl::OkStatus();
  shard_.ParametersChanged();
  return order_.Finish();
}

absl::Status StepExecutor::Open() {
  if (open_) return absl::OkStatus();
  RETURN_IF_ERROR(Annotate(exchange_.Open(options_.tell, Deadline()),
                           "agreeing with the other ranks on how memory is sent"));
  if (unit_ranks_.size() > 1) {
    group_ = MakeUnitGroup();
    passes_.SetGroup(group_.get());
  }
  RETURN_IF_ERROR(order_.Finish());  // what loading the model has submitted
  RETURN_IF_ERROR(order_.Open());
  open_ = true;
  return absl::OkStatus();
}

std::unique_ptr<RankGroup> StepExecutor::MakeUnitGroup() {
  const auto deadline = [this] { return Deadline(); };
  if (std::unique_ptr<DeviceGroup> group = exchange_.TakeUnitGroup(); group != nullptr) {
    return std::make_unique<LibraryRankGroup>(std::move(group), shard_.queue(), transport_, unit_ranks_,
                                              kUnitChannel, deadline);
  }
  const auto choice = [this](int64_t elements) {
    return ChoiceFor(options_.reductions, {unit_ranks_.begin(), unit_ranks_.end()}, elements);
  };
  return std::make_unique<StagedRankGroup>(
      shard_.queue(), transport_, unit_ranks_, kUnitChannel, choice,
      StagedRankGroup::Watch{.deadline = deadline,
                             .waits_for_peers = [this](bool waits) { SetWaitsForUnit(waits); }});
}

absl::Status StepExecutor::RunWatched(const Pass& pass, int index, MeasuredTime& time) {
  const Instruction& instruction = pass.program.instructions[index];
  absl::Status status = Run(pass, index, time);
  if (absl::IsDeadlineExceeded(status)) {
    const Activity activity{instruction, peers_.Of(instruction),
                            pass.started_at + absl::Seconds(time.start_seconds)};
    status = absl::DeadlineExceededError(
        absl::StrCat(status.message(), ". ", StallReport(*board_, activity, transport_, options_.ask)));
  }
  board_->End(instruction.stream);
  Progress::OfProcess().Add();
  return status;
}

absl::StatusOr<StepOutcome> StepExecutor::TrainStep(int64_t step, bool next_follows) {
  step_ = step;
  // What was clipped, or skipped, a step ago probably is again.
  const StepEnds ends{.begins_ahead = went_ahead_,
                      .goes_ahead = next_follows && !decision_.clipped() && !decision_.skipped(),
                      .gathers = owes_gathers_};
  goes_ahead_ = ends.goes_ahead && options_.plan.post_validation;
  const StepProgram& program = programs_.Train(ends);
  const int64_t scale = loss_scale().factor;
  shard_.SetLossScale(static_cast<float>(scale));
  board_->Enter(absl::StrCat("step ", step));
  StepRun run = RunProgram(program, Purpose::kTrain, step - 1);
  if (!run.status.ok()) return Annotate(run.status, absl::StrFormat("step %d", step));
  owes_gathers_ = programs_.gathers();
  const TrainingShape& shape = options_.spec.shape;
  const double tokens = static_cast<double>(shape.global_batch_sequences) * shape.sequence;
  const absl::Duration length = Now() - run.started_at;
  longest_step_ = std::max(longest_step_, length);
  StepOutcome outcome{
      .loss = scalars_.loss() / tokens,
      .gradient_norm = scalars_.norm() / static_cast<double>(scale),
      .learning_rate = LearningRateAt(options_.spec.optimizer, step, options_.spec.steps),
      .finish_wished = scalars_.wishes() > 0,
      .skipped = decision_.skipped(),
      .loss_scale = scale,
      .seconds = absl::ToDoubleSeconds(length),
      .started_at = run.started_at,
      .times = &program == &programs_.train() ? std::move(run.times) : std::vector<MeasuredTime>()};
  if (!next_follows) RETURN_IF_ERROR(CompleteParameters());
  return outcome;
}

absl::Status StepExecutor::CompleteParameters() {
  if (!owes_gathers_) return absl::OkStatus();
  board_->Enter(absl::StrCat("parameters of step ", step_));
  RETURN_IF_ERROR(Annotate(RunProgram(programs_.gathers_alone(), Purpose::kTrain, step_ - 1).status,
                           absl::StrFormat("parameters of step %d", step_)));
  owes_gathers_ = false;
  return absl::OkStatus();
}

absl::StatusOr<double> StepExecutor::Evaluate() {
  RETURN_IF_ERROR(CompleteParameters());
  const TrainingShape& shape = options_.spec.shape;
  double sum = 0;
  for (int batch = 0; batch < options_.spec.validation_batches; ++batch) {
    board_->Enter(absl::StrCat("validation batch ", batch, " after step ", step_));
    const StepRun run = RunProgram(programs_.evaluate(), Purpose::kEvaluate, batch);
    if (!run.status.ok()) return Annotate(run.status, absl::StrFormat("validation batch %d", batch));
    sum += scalars_.loss();
  }
  return sum / (static_cast<double>(shape.global_batch_sequences) * shape.sequence *
                options_.spec.validation_batches);
}

absl::Status StepExecutor::SumOverRanks(absl::Span<double> values) {
  // On the board like the sum of a step: whoever asks, and the watch, are told who is waited for.
  const Instruction sum{.kind = InstructionKind::kReduceScalars, .stream = Stream::kCollective};
  board_->Begin(sum, peers_.Of(sum));
  const absl::Status status = Sum(values, absl::InfiniteFuture());
  board_->End(sum.stream);
  Progress::OfProcess().Add();
  return status;
}

absl::StatusOr<std::string> StepExecutor::TextOf(int from, const std::string& text) {
  std::vector<double> numbers = NumbersOfText(rank() == from ? text : std::string());
  RETURN_IF_ERROR(SumOverRanks(absl::MakeSpan(numbers)));
  return TextOfNumbers(numbers);
}

absl::Status StepExecutor::Sum(absl::Span<double> values, absl::Time deadline) {
  return AllReduceScalars(transport_, all_ranks_, values, deadline);
}

absl::Status StepExecutor::Run(const Pass& pass, int index, MeasuredTime& time) {
  const Instruction& instruction = pass.program.instructions[index];
  if (instruction.stream == Stream::kCompute) {
    board_->Begin(instruction, {});
    return Compute(pass, index);
  }
  if (IsReceive(instruction.kind)) {
    board_->Begin(instruction, peers_.Of(instruction));
    return Exchange(pass, index, nullptr);
  }
  // While it waits for this rank's own device it waits for no peer: whoever asks is told so, its time has not
  // begun, and a device that hangs is not taken for a peer that does.
  board_->Begin(instruction, {});
  const auto when_ready = [&] {
    time.start_seconds = absl::ToDoubleSeconds(Now() - pass.started_at);
    board_->Begin(instruction, peers_.Of(instruction));
  };
  if (instruction.kind == InstructionKind::kReduceScalars)
    return ReduceScalars(pass, instruction, when_ready);
  if (instruction.kind == InstructionKind::kFetch || instruction.kind == InstructionKind::kStore)
    return Copy(instruction, when_ready);
  return Exchange(pass, index, when_ready);
}

absl::Status StepExecutor::Exchange(const Pass& pass, int index, const std::function<void()>& when_ready) {
  const Instruction& instruction = pass.program.instructions[index];
  const auto exchange = instruction.kind == InstructionKind::kGatherParameters
                            ? &StepExchange::GatherParameters
                        : IsOfSlice(instruction.kind) ? &StepExchange::Reduce
                                                      : &StepExchange::Transfer;
  ASSIGN_OR_RETURN(
      const MessageArrival arrival,
      (exchange_.*exchange)(instruction, order_.DoneBefore(instruction), when_ready, Deadline()));
  order_.Arrived(index, arrival);
  return absl::OkStatus();
}

absl::Status StepExecutor::Copy(const Instruction& instruction, const std::function<void()>& when_ready) {
  const BufferKind kind = instruction.operands.front().buffer.kind;
  if (const std::optional<Fence> after = order_.DoneBefore(instruction); after.has_value())
    RETURN_IF_ERROR(shard_.queue().Wait(*after));
  when_ready();
  if (const int home = instruction.OperandOf(BufferKind::kStashHome).buffer.index; home >= 0) {
    const int stash = instruction.OperandOf(BufferKind::kLeavingStash).buffer.index;
    return instruction.kind == InstructionKind::kFetch
               ? shard_.FetchStash(instruction.chunk, home, stash, instruction.bytes)
               : shard_.StoreStash(instruction.chunk, stash, home, instruction.bytes);
  }
  return instruction.kind == InstructionKind::kFetch ? shard_.arena().Fetch(kind, instruction.blocks.first)
                                                     : shard_.arena().Store(kind, instruction.blocks.first);
}

absl::Status StepExecutor::Compute(const Pass& pass, int index) {
  const Instruction& instruction = pass.program.instructions[index];
  // What the ops keep of the layer that was in the window is of no use any more.
  if (order_.UsesNewLayer(instruction)) shard_.ParametersChanged();
  RETURN_IF_ERROR(order_.BeginWork(index));
  computing_ = &instruction;
  RETURN_IF_ERROR(Submit(pass, instruction));
  computing_ = nullptr;
  RETURN_IF_ERROR(order_.EndWork(index));
  if (instruction.kind != InstructionKind::kUpdateParameters) return absl::OkStatus();
  // The end of the step, but for parameters that others have updated, and layers that go home.
  return windows_of_layers() ? absl::OkStatus() : order_.Finish();
}

absl::Status StepExecutor::Submit(const Pass& pass, const Instruction& instruction) {
  if (instruction.kind == InstructionKind::kAdvanceParameters)
    return shard_.AdvanceParameters(decision_.Unclipped(step_));
  if (instruction.kind == InstructionKind::kUpdateParameters) return Update(instruction);
  return passes_.Submit(instruction, pass.purpose, pass.data_step);
}

void StepExecutor::SetWaitsForUnit(bool waits) {
  if (computing_ != nullptr) board_->Begin(*computing_, waits ? peers_.Of(*computing_) : std::vector<int>{});
}

absl::Status StepExecutor::ReduceScalars(const Pass& pass, const Instruction& instruction,
                                         const std::function<void()>& when_ready) {
  if (pass.purpose == Purpose::kTrain) {
    RETURN_IF_ERROR(shard_.queue().Wait(*order_.DoneBefore(instruction)));
    for (const SegmentId segment : shard_.arena().layout().segments)
      scalars_.squared_norm(segment) = shard_.fetched_squared_norm(segment);
  } else {
    RETURN_IF_ERROR(shard_.TakeLossSum().status());
  }
  // All that the step's passes have computed stands on what the unit's ranks exchanged: before any rank is told of it.
  if (group_ != nullptr) RETURN_IF_ERROR(group_->Error());
  if (Holds(options_.plan.units[program().unit], options_.spec.shape.model.head_block()))
    scalars_.loss() = shard_.fetched_loss_sum();
  scalars_.wishes() = wishes_to_finish() ? 1 : 0;
  when_ready();
  return Sum(absl::MakeSpan(scalars_.values), Deadline());
}

absl::Status StepExecutor::Update(const Instruction& instruction) {
  const bool of_device = instruction.blocks.size() == 0;  // it is the first of a step
  if (of_device) RETURN_IF_ERROR(decision_.Decide(step_, scalars_.loss(), scalars_.norm()));
  const std::optional<ModelShard::Update>& update = decision_.update();
  if (!of_device)
    return update.has_value() ? shard_.UpdateLayer(instruction.blocks.first, *update) : absl::OkStatus();
  went_ahead_ = goes_ahead_ && update.has_value() && !decision_.clipped();
  if (goes_ahead_ && programs_.goes_ahead()) return shard_.SettleParameters(update);
  return update.has_value() ? shard_.UpdateParameters(*update) : shard_.ZeroGradients();
}

}  // namespace medley
