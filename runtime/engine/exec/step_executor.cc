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
#include "runtime/base/counted.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/exec/channels.h"
#include "runtime/ir/collective/scalar_tree.h"
#include "runtime/ir/model/row_counts.h"

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
      windows_(windows),
      train_program_(CompileStep(options_.plan, options_.rank, options_.spec.shape, Purpose::kTrain)),
      evaluate_program_(CompileStep(options_.plan, options_.rank, options_.spec.shape, Purpose::kEvaluate)),
      gathers_alone_(GathersAlone(train_program_)),
      all_ranks_(AllRanks(options_.plan)),
      unit_ranks_(RanksOf(options_.plan, train_program_.unit)),
      exchange_(train_program_, options_.reductions, SharedUnits(options_.plan), NodesOf(options_.plan),
                options_.spec.communication, shard, transport),
      // A step that begins with nothing made, and goes ahead, has as many as any.
      submitted_(ProgramOf({.begins_ahead = false}).instructions.size()),
      arrivals_(submitted_.size()),
      scalars_(ScalarCount(options_.spec.shape.model)),
      loss_scale_(options_.loss_scale.value_or(LossScale::For(options_.spec.precision))) {
  for (const SegmentId segment : shard.arena().layout().segments) {
    if (!shard.arena().LivesOnHost(segment)) segments_on_device_.push_back(segment);
  }
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
  std::fill(arrivals_.begin(), arrivals_.end(), MessageArrival{});
  newest_fetch_ = -1;
  // The device has nothing left to do: the mark is reached as soon as it is submitted.
  if (const absl::Status set = timer_->Set(BeginMark()); !set.ok()) return {.status = set};
  begun_ = shard_.queue().Record();  // a driver may keep the mark until something is recorded
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
    const absl::Status read = ReadTimes(pass, run.times);
    if (!read.ok() && options_.warn) options_.warn(absl::StrCat("no times of this step: ", read.message()));
  } else {
    (void)Finish();  // what was submitted uses memory that may now be given back
  }
  return run;
}

absl::Status StepExecutor::TakeParameters(const StepProgram& program) {
  bool gathered = false;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].kind != InstructionKind::kGatherParameters) continue;
    gathered = true;
    if (arrivals_[i].lane != nullptr)
      RETURN_IF_ERROR(shard_.queue().AwaitLane(*arrivals_[i].lane, arrivals_[i].fence));
  }
  if (!gathered && !windows_of_layers()) return absl::OkStatus();
  shard_.ParametersChanged();
  return Finish();
}

absl::Status StepExecutor::Open() {
  if (timer_ != nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(Annotate(exchange_.Open(options_.tell, Deadline()),
                           "agreeing with the other ranks on how memory is sent"));
  if (unit_ranks_.size() > 1) {
    group_ = MakeUnitGroup();
    shard_.SetGroup(group_.get());
  }
  RETURN_IF_ERROR(Finish());  // what loading the model has submitted
  ASSIGN_OR_RETURN(timer_, shard_.queue().OpenTimer(BeginMark() + 1));
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

absl::Status StepExecutor::ReadTimes(const Pass& pass, std::vector<MeasuredTime>& times) {
  for (int i = 0; i < static_cast<int>(times.size()); ++i) {
    if (pass.program.instructions[i].stream != Stream::kCompute) continue;
    ASSIGN_OR_RETURN(times[i].start_seconds, timer_->Seconds(BeginMark(), 2 * i));
    ASSIGN_OR_RETURN(times[i].end_seconds, timer_->Seconds(BeginMark(), 2 * i + 1));
  }
  return absl::OkStatus();
}

std::vector<int> StepExecutor::PeersOf(const Instruction& instruction) const {
  std::vector<int> peers;
  if (instruction.peer >= 0) peers.push_back(instruction.peer);
  if (IsOfSlice(instruction.kind)) {
    const std::vector<Rank>& holders = train_program_.slices[instruction.slice].holders;
    peers.assign(holders.begin(), holders.end());
  }
  if (instruction.kind == InstructionKind::kReduceScalars)
    peers = ScalarTree(static_cast<int>(all_ranks_.size())).PeersOf(options_.rank);
  if (IsOfUnit(instruction.kind)) peers = unit_ranks_;
  // Of a collective's others, those that this rank hears of.
  std::erase_if(peers, [this](int peer) { return !transport_.IsPeer(peer); });
  return peers;
}

absl::Status StepExecutor::RunWatched(const Pass& pass, int index, MeasuredTime& time) {
  const Instruction& instruction = pass.program.instructions[index];
  absl::Status status = Run(pass, index, time);
  if (absl::IsDeadlineExceeded(status)) {
    const Activity activity{instruction, PeersOf(instruction),
                            pass.started_at + absl::Seconds(time.start_seconds)};
    status = absl::DeadlineExceededError(
        absl::StrCat(status.message(), ". ", StallReport(*board_, activity, transport_, options_.ask)));
  }
  board_->End(instruction.stream);
  Progress::OfProcess().Add();
  return status;
}

const StepProgram& StepExecutor::ProgramOf(StepEnds ends) {
  if (goes_ahead() ? ends.begins_ahead && ends.goes_ahead
                   : ends.gathers || gathers_alone_.instructions.empty())
    return train_program_;
  std::optional<StepProgram>& program =
      train_programs_[goes_ahead() ? ends.begins_ahead + 2 * ends.goes_ahead : 0];
  if (!program.has_value())
    program = CompileStep(options_.plan, options_.rank, options_.spec.shape, Purpose::kTrain, ends);
  return *program;
}

absl::StatusOr<StepOutcome> StepExecutor::TrainStep(int64_t step, bool next_follows) {
  step_ = step;
  // What was clipped, or skipped, a step ago probably is again.
  const StepEnds ends{.begins_ahead = went_ahead_,
                      .goes_ahead = next_follows && !clipped_ && !skipped_,
                      .gathers = owes_gathers_};
  goes_ahead_ = ends.goes_ahead && options_.plan.post_validation;
  const StepProgram& program = ProgramOf(ends);
  const int64_t scale = loss_scale_.factor;
  shard_.SetLossScale(static_cast<float>(scale));
  board_->Enter(absl::StrCat("step ", step));
  StepRun run = RunProgram(program, Purpose::kTrain, step - 1);
  if (!run.status.ok()) return Annotate(run.status, absl::StrFormat("step %d", step));
  owes_gathers_ = !gathers_alone_.instructions.empty();
  const TrainingShape& shape = options_.spec.shape;
  const double tokens = static_cast<double>(shape.global_batch_sequences) * shape.sequence;
  const absl::Duration length = Now() - run.started_at;
  longest_step_ = std::max(longest_step_, length);
  StepOutcome outcome{
      .loss = scalars_.loss() / tokens,
      .gradient_norm = scalars_.norm() / static_cast<double>(scale),
      .learning_rate = LearningRateAt(options_.spec.optimizer, step, options_.spec.steps),
      .finish_wished = scalars_.wishes() > 0,
      .skipped = skipped_,
      .loss_scale = scale,
      .seconds = absl::ToDoubleSeconds(length),
      .started_at = run.started_at,
      .times = &program == &train_program_ ? std::move(run.times) : std::vector<MeasuredTime>()};
  if (!next_follows) RETURN_IF_ERROR(CompleteParameters());
  return outcome;
}

absl::Status StepExecutor::CompleteParameters() {
  if (!owes_gathers_) return absl::OkStatus();
  board_->Enter(absl::StrCat("parameters of step ", step_));
  RETURN_IF_ERROR(Annotate(RunProgram(gathers_alone_, Purpose::kTrain, step_ - 1).status,
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
    const StepRun run = RunProgram(evaluate_program_, Purpose::kEvaluate, batch);
    if (!run.status.ok()) return Annotate(run.status, absl::StrFormat("validation batch %d", batch));
    sum += scalars_.loss();
  }
  return sum / (static_cast<double>(shape.global_batch_sequences) * shape.sequence *
                options_.spec.validation_batches);
}

absl::Status StepExecutor::SumOverRanks(absl::Span<double> values) {
  // On the board like the sum of a step: whoever asks, and the watch, are told who is waited for.
  const Instruction sum{.kind = InstructionKind::kReduceScalars, .stream = Stream::kCollective};
  board_->Begin(sum, PeersOf(sum));
  const absl::Status status = Sum(values, absl::InfiniteFuture());
  board_->End(sum.stream);
  Progress::OfProcess().Add();
  return status;
}

absl::StatusOr<std::string> StepExecutor::TextOf(int from, const std::string& text) {
  constexpr size_t kMostBytes = 1024, kBytesPerNumber = 4;  // 32 bits are exact in a double
  std::vector<double> numbers(kMostBytes / kBytesPerNumber + 1);
  if (rank() == from) {
    const std::string sent = text.substr(0, kMostBytes);
    numbers.back() = static_cast<double>(sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      numbers[i / kBytesPerNumber] +=
          static_cast<double>(uint32_t{static_cast<uint8_t>(sent[i])} << (8 * (i % kBytesPerNumber)));
    }
  }
  RETURN_IF_ERROR(SumOverRanks(absl::MakeSpan(numbers)));
  std::string received(static_cast<size_t>(numbers.back()), '\0');
  for (size_t i = 0; i < received.size(); ++i) {
    received[i] =
        static_cast<char>(static_cast<uint32_t>(numbers[i / kBytesPerNumber]) >> (8 * (i % kBytesPerNumber)));
  }
  return received;
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
    board_->Begin(instruction, PeersOf(instruction));
    return Exchange(pass, index, nullptr);
  }
  // While it waits for this rank's own device it waits for no peer: whoever asks is told so, its time has not
  // begun, and a device that hangs is not taken for a peer that does.
  board_->Begin(instruction, {});
  const auto when_ready = [&] {
    time.start_seconds = absl::ToDoubleSeconds(Now() - pass.started_at);
    board_->Begin(instruction, PeersOf(instruction));
  };
  if (instruction.kind == InstructionKind::kReduceScalars)
    return ReduceScalars(pass, instruction, when_ready);
  if (instruction.kind == InstructionKind::kFetch || instruction.kind == InstructionKind::kStore)
    return Copy(pass, index, when_ready);
  return Exchange(pass, index, when_ready);
}

std::optional<Fence> StepExecutor::DoneBefore(const Pass& pass, const Instruction& instruction) const {
  std::optional<Fence> last;
  for (const int other : instruction.waits_for) {
    if (other < 0 || pass.program.instructions[other].stream != Stream::kCompute) continue;
    if (!last.has_value() || last->value < submitted_[other].value) last = submitted_[other];
  }
  return last;
}

absl::Status StepExecutor::Exchange(const Pass& pass, int index, const std::function<void()>& when_ready) {
  const Instruction& instruction = pass.program.instructions[index];
  std::optional<Fence> after = DoneBefore(pass, instruction);
  if (instruction.kind == InstructionKind::kGatherParameters) {
    // What the device updated in the step before: layers that live elsewhere are there.
    if (!after.has_value() && instruction.stream == Stream::kCollective) after = begun_;
    ASSIGN_OR_RETURN(arrivals_[index],
                     exchange_.GatherParameters(instruction, after, when_ready, Deadline()));
  } else if (IsOfSlice(instruction.kind)) {
    ASSIGN_OR_RETURN(arrivals_[index], exchange_.Reduce(instruction, after, when_ready, Deadline()));
  } else {
    ASSIGN_OR_RETURN(arrivals_[index], exchange_.Transfer(instruction, after, when_ready, Deadline()));
  }
  return absl::OkStatus();
}

absl::Status StepExecutor::Copy(const Pass& pass, int index, const std::function<void()>& when_ready) {
  const Instruction& instruction = pass.program.instructions[index];
  const BufferKind kind = instruction.operands.front().buffer.kind;
  if (const std::optional<Fence> after = DoneBefore(pass, instruction); after.has_value())
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
  for (const int other : instruction.waits_for) {
    if (other < 0) continue;
    const Instruction& before = pass.program.instructions[other];
    // What the ops keep of the layer that was in the window is of no use any more.
    // Fetches come in the order of their first users.
    const bool fetches =
        before.kind == InstructionKind::kFetch || before.kind == InstructionKind::kGatherParameters;
    if (fetches && other > newest_fetch_ &&
        before.operands.front().buffer.kind == BufferKind::kParameterWindow) {
      newest_fetch_ = other;
      shard_.ParametersChanged();
    }
    if (arrivals_[other].lane == nullptr) continue;
    RETURN_IF_ERROR(shard_.queue().AwaitLane(*arrivals_[other].lane, arrivals_[other].fence));
  }
  RETURN_IF_ERROR(timer_->Set(2 * index));
  computing_ = &instruction;
  RETURN_IF_ERROR(Submit(pass, instruction));
  computing_ = nullptr;
  RETURN_IF_ERROR(timer_->Set(2 * index + 1));
  submitted_[index] = shard_.queue().Record();
  if (instruction.kind != InstructionKind::kUpdateParameters) return absl::OkStatus();
  // The end of the step, but for parameters that others have updated, and layers that go home.
  return windows_of_layers() ? absl::OkStatus() : Finish();
}

absl::Status StepExecutor::Submit(const Pass& pass, const Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::kGatherActivation:
    case InstructionKind::kGatherGradient:
      return Gather(instruction);
    case InstructionKind::kForward:
      RETURN_IF_ERROR(
          LoadTokens(instruction, pass.purpose, pass.data_step + (instruction.next_step ? 1 : 0)));
      return shard_.Forward(BuffersOf(instruction), instruction.blocks, pass.purpose);
    case InstructionKind::kRecompute:
      return shard_.MakeAgain(BuffersOf(instruction), instruction.blocks);
    case InstructionKind::kBackward:
      return shard_.Backward(BuffersOf(instruction), instruction.blocks);
    case InstructionKind::kInputGradient:
      return shard_.InputGradient(BuffersOf(instruction));
    case InstructionKind::kWeightGradient:
      return shard_.WeightGradient(BuffersOf(instruction), instruction.blocks);
    case InstructionKind::kZeroGradients:
      return shard_.ZeroGradientsOf(instruction.blocks.first);
    case InstructionKind::kJoinGradients:
      return shard_.JoinGradients(instruction.chunk, instruction.blocks);
    case InstructionKind::kNormGradients:
      if (instruction.blocks.size() > 0)
        return shard_.ComputeNorms({SegmentOfBlock(instruction.blocks.first)});
      RETURN_IF_ERROR(shard_.ComputeNorms(segments_on_device_));
      return shard_.FetchScalars();
    case InstructionKind::kAdvanceParameters:
      return shard_.AdvanceParameters(UnclippedUpdate());
    case InstructionKind::kUpdateParameters:
      return Update(instruction);
    default:
      break;
  }
  return absl::InternalError(absl::StrCat(NameOf(instruction.kind), ": not for the device"));
}

ModelShard::PassBuffers StepExecutor::BuffersOf(const Instruction& pass) const {
  const auto index = [&](BufferKind kind) { return pass.OperandOf(kind).buffer.index; };
  const auto boundary = [&](BufferKind kind) {
    const Operand operand = pass.OperandOf(kind);
    return ModelShard::Boundary(operand.buffer.index, operand.dtype);
  };
  return {.chunk = pass.chunk,
          .micro_batch_sequences = train_program_.visits[pass.visit].micro_batch_sequences,
          .stash = index(BufferKind::kStash),
          .leaving_stash = index(BufferKind::kLeavingStash),
          .deferred = index(BufferKind::kDeferred),
          .recomputed = index(BufferKind::kRecomputed),
          .stream_gradient = index(BufferKind::kStreamGradient),
          .input = boundary(BufferKind::kInput),
          .output = boundary(BufferKind::kOutput),
          .input_gradient = boundary(BufferKind::kInputGradient),
          .output_gradient = boundary(BufferKind::kOutputGradient)};
}

absl::Status StepExecutor::Gather(const Instruction& instruction) {
  const Operand& operand = instruction.operands.front();
  Slice x = shard_.BoundaryOf(operand.buffer, operand.dtype);
  x.elements = instruction.bytes.value / SizeOf(x.dtype).value;
  const int64_t hidden = options_.spec.shape.model.hidden;
  std::vector<int64_t> ends = RowEnds(x.elements / hidden, group_->members());
  for (int64_t& end : ends) end *= hidden;
  return group_->Gather(x, ends);
}

void StepExecutor::SetWaitsForUnit(bool waits) {
  if (computing_ != nullptr) board_->Begin(*computing_, waits ? PeersOf(*computing_) : std::vector<int>{});
}

absl::Status StepExecutor::Finish() { return shard_.queue().Wait(shard_.queue().Record()); }

absl::Status StepExecutor::LoadTokens(const Instruction& instruction, Purpose purpose, int64_t data_step) {
  const ModelConfig& config = options_.spec.shape.model;
  const bool inputs = instruction.blocks.contains(config.embedding_block());
  const bool targets = instruction.blocks.contains(config.head_block());
  if (!inputs && !targets) return absl::OkStatus();
  const Visit& at = train_program_.visits[instruction.visit];
  const int sequence = options_.spec.shape.sequence, count = at.micro_batch_sequences;
  const int first = at.first_sequence + (instruction.micro_batch - at.first_micro_batch) * count;
  std::vector<int32_t> window(sequence + 1), input_ids, target_ids;
  for (int i = 0; i < count; ++i) {
    RETURN_IF_ERROR(windows_.Read(purpose, data_step, first + i, absl::MakeSpan(window)));
    input_ids.insert(input_ids.end(), window.begin(), window.end() - 1);
    target_ids.insert(target_ids.end(), window.begin() + 1, window.end());
  }
  if (inputs) RETURN_IF_ERROR(shard_.SetTokens(BuffersOf(instruction), input_ids));
  if (targets) RETURN_IF_ERROR(shard_.SetTargets(BuffersOf(instruction), target_ids));
  return absl::OkStatus();
}

absl::Status StepExecutor::ReduceScalars(const Pass& pass, const Instruction& instruction,
                                         const std::function<void()>& when_ready) {
  if (pass.purpose == Purpose::kTrain) {
    RETURN_IF_ERROR(shard_.queue().Wait(*DoneBefore(pass, instruction)));
    for (const SegmentId segment : shard_.arena().layout().segments)
      scalars_.squared_norm(segment) = shard_.fetched_squared_norm(segment);
  } else {
    RETURN_IF_ERROR(shard_.TakeLossSum().status());
  }
  // All that the step's passes have computed stands on what the unit's ranks exchanged: before any rank is told of it.
  if (group_ != nullptr) RETURN_IF_ERROR(group_->Error());
  if (Holds(options_.plan.units[train_program_.unit], options_.spec.shape.model.head_block()))
    scalars_.loss() = shard_.fetched_loss_sum();
  scalars_.wishes() = wishes_to_finish() ? 1 : 0;
  when_ready();
  return Sum(absl::MakeSpan(scalars_.values), Deadline());
}

absl::StatusOr<std::optional<ModelShard::Update>> StepExecutor::DecideUpdate() {
  const OptimizerSettings& optimizer = options_.spec.optimizer;
  const double scale = static_cast<double>(loss_scale_.factor), norm = scalars_.norm() / scale;
  skipped_ = !std::isfinite(scalars_.loss()) || !std::isfinite(norm);
  if (skipped_) {
    // Every rank decides by the same bits.
    if (loss_scale_.Shrink()) return std::nullopt;
    if (skipped_in_a_row_ < optimizer.skip_non_finite) {
      ++skipped_in_a_row_;
      return std::nullopt;
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "the %s is not finite (loss sum %g, gradient norm %g)%s; nothing was updated. Try a lower learning "
        "rate, a longer "
        "warm-up, or gradient clipping",
        std::isfinite(scalars_.loss()) ? "gradient norm" : "loss", scalars_.loss(), norm,
        skipped_in_a_row_ > 0
            ? absl::StrFormat(", after %s in a row that %s skipped", Counted(skipped_in_a_row_, "step"),
                              skipped_in_a_row_ == 1 ? "was" : "were")
        : options_.spec.precision == Precision::kF16 ? " with a loss scale of 1"
                                                     : ""));
  }
  skipped_in_a_row_ = 0;
  ModelShard::Update update = UnclippedUpdate();
  loss_scale_.Grow(options_.spec.precision);
  clipped_ = optimizer.clip_norm > 0 && norm > optimizer.clip_norm;
  if (clipped_) update.gradient_scale = static_cast<float>(optimizer.clip_norm / (norm + 1e-6) / scale);
  return update;
}

ModelShard::Update StepExecutor::UnclippedUpdate() const {
  const OptimizerSettings& optimizer = options_.spec.optimizer;
  return {.learning_rate = static_cast<float>(LearningRateAt(optimizer, step_, options_.spec.steps)),
          .beta1 = static_cast<float>(optimizer.beta1),
          .beta2 = static_cast<float>(optimizer.beta2),
          .epsilon = static_cast<float>(optimizer.epsilon),
          .weight_decay = static_cast<float>(optimizer.weight_decay),
          .gradient_scale = static_cast<float>(1.0 / static_cast<double>(loss_scale_.factor)),
          .step = step_};
}

absl::Status StepExecutor::Update(const Instruction& instruction) {
  const bool of_device = instruction.blocks.size() == 0;  // it is the first of a step
  if (of_device) {
    ASSIGN_OR_RETURN(update_, DecideUpdate());
  }
  if (!of_device)
    return update_.has_value() ? shard_.UpdateLayer(instruction.blocks.first, *update_) : absl::OkStatus();
  went_ahead_ = goes_ahead_ && update_.has_value() && !clipped_;
  if (goes_ahead_ && goes_ahead()) return shard_.SettleParameters(update_);
  return update_.has_value() ? shard_.UpdateParameters(*update_) : shard_.ZeroGradients();
}

}  // namespace medley
