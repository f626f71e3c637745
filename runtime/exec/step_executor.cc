#include "runtime/exec/step_executor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "comm/collective/all_reduce_scalars.h"
#include "runtime/base/clock.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

std::vector<int> AllRanks(const Plan& plan) {
  std::vector<int> ranks(RankCount(plan));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::string Where(const Instruction& instruction) {
  std::string text = NameOf(instruction.kind);
  if (instruction.micro_batch >= 0) text += absl::StrFormat(" of micro-batch %d", instruction.micro_batch.value());
  if (instruction.peer >= 0) text += absl::StrFormat(" with rank %d", instruction.peer.value());
  return text;
}

ModelShard::PassBuffers BuffersOf(const Instruction& pass) {
  return {.stash = pass.BufferOf(BufferKind::kStash),
          .input = pass.BufferOf(BufferKind::kInput),
          .output = pass.BufferOf(BufferKind::kOutput),
          .input_gradient = pass.BufferOf(BufferKind::kInputGradient),
          .output_gradient = pass.BufferOf(BufferKind::kOutputGradient)};
}

}  // namespace

StepExecutor::StepExecutor(Options options, ModelShard& shard, Transport& transport, WindowSource& windows)
    : options_(std::move(options)),
      shard_(shard),
      transport_(transport),
      windows_(windows),
      train_program_(CompileStep(options_.plan, options_.rank, options_.spec.shape, Purpose::kTrain)),
      evaluate_program_(CompileStep(options_.plan, options_.rank, options_.spec.shape, Purpose::kEvaluate)),
      owned_segments_(OwnedSegments(options_.plan, options_.rank, options_.spec.shape.model)),
      all_ranks_(AllRanks(options_.plan)),
      exchange_(train_program_, options_.reductions, options_.spec.communication, shard, transport),
      gradients_ready_(train_program_.slices.size()),
      scalars_(ScalarCount(options_.spec.shape.model)) {
  if (options_.warn) {
    watch_ = std::make_unique<StallWatch>(
        *board_, transport_,
        StallWatch::Options{.patience = options_.stall_warning, .ask = options_.ask, .report = options_.warn});
  }
}

double StepExecutor::Scalars::norm() const { return std::sqrt(std::accumulate(values.begin(), values.end() - 2, 0.0)); }

absl::Time StepExecutor::Deadline() const { return Now() + options_.stall_timeout + 10 * longest_step_; }

StepRun StepExecutor::RunProgram(const StepProgram& program, Purpose purpose, int64_t data_step) {
  if (const absl::Status opened = exchange_.Open(Deadline()); !opened.ok()) {
    return {.status = Annotate(opened, "agreeing with the other ranks on how memory is sent")};
  }
  std::fill(scalars_.values.begin(), scalars_.values.end(), 0.0);
  return RunStreams(
      program, [&](const Instruction& instruction) {
        return Annotate(RunWatched(instruction, purpose, data_step), Where(instruction));
      },
      [&](const absl::Status& failure) { transport_.Abort(std::string(failure.message())); });
}

std::vector<int> StepExecutor::PeersOf(const Instruction& instruction) const {
  std::vector<int> peers;
  if (instruction.peer >= 0) peers.push_back(instruction.peer);
  if (instruction.kind == InstructionKind::kReduceGradients) {
    const std::vector<Rank>& holders = train_program_.slices[instruction.slice].holders;
    peers.assign(holders.begin(), holders.end());
  }
  if (instruction.kind == InstructionKind::kReduceScalars) peers = all_ranks_;
  std::erase(peers, options_.rank.value());
  return peers;
}

absl::Status StepExecutor::RunWatched(const Instruction& instruction, Purpose purpose, int64_t data_step) {
  const Activity activity{instruction, PeersOf(instruction), Now()};
  board_->Begin(instruction, activity.peers);
  absl::Status status = Run(instruction, purpose, data_step);
  if (absl::IsDeadlineExceeded(status)) {
    status = absl::DeadlineExceededError(
        absl::StrCat(status.message(), ". ", StallReport(*board_, activity, transport_, options_.ask)));
  }
  board_->End(instruction.stream);
  Progress::OfProcess().Add();
  return status;
}

absl::StatusOr<StepOutcome> StepExecutor::TrainStep(int64_t step) {
  step_ = step;
  board_->Enter(absl::StrCat("step ", step));
  StepRun run = RunProgram(train_program_, Purpose::kTrain, step - 1);
  if (!run.status.ok()) return Annotate(run.status, absl::StrFormat("step %d", step));
  const TrainingShape& shape = options_.spec.shape;
  const double tokens = static_cast<double>(shape.global_batch_sequences) * shape.sequence;
  const absl::Duration length = Now() - run.started_at;
  longest_step_ = std::max(longest_step_, length);
  return StepOutcome{.loss = scalars_.loss() / tokens,
                     .gradient_norm = scalars_.norm(),
                     .learning_rate = LearningRateAt(options_.spec.optimizer, step, options_.spec.steps),
                     .finish_wished = scalars_.wishes() > 0,
                     .skipped = skipped_in_a_row_ > 0,
                     .seconds = absl::ToDoubleSeconds(length),
                     .started_at = run.started_at,
                     .times = std::move(run.times)};
}

absl::StatusOr<double> StepExecutor::Evaluate() {
  const TrainingShape& shape = options_.spec.shape;
  double sum = 0;
  for (int batch = 0; batch < options_.spec.validation_batches; ++batch) {
    board_->Enter(absl::StrCat("validation batch ", batch, " after step ", step_));
    const StepRun run = RunProgram(evaluate_program_, Purpose::kEvaluate, batch);
    if (!run.status.ok()) return Annotate(run.status, absl::StrFormat("validation batch %d", batch));
    sum += scalars_.loss();
  }
  return sum / (static_cast<double>(shape.global_batch_sequences) * shape.sequence * options_.spec.validation_batches);
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
      numbers[i / kBytesPerNumber] += static_cast<double>(uint32_t{static_cast<uint8_t>(sent[i])} << (8 * (i % kBytesPerNumber)));
    }
  }
  RETURN_IF_ERROR(SumOverRanks(absl::MakeSpan(numbers)));
  std::string received(static_cast<size_t>(numbers.back()), '\0');
  for (size_t i = 0; i < received.size(); ++i) {
    received[i] = static_cast<char>(static_cast<uint32_t>(numbers[i / kBytesPerNumber]) >> (8 * (i % kBytesPerNumber)));
  }
  return received;
}

absl::Status StepExecutor::Sum(absl::Span<double> values, absl::Time deadline) {
  return AllReduceScalars(transport_, all_ranks_, values, deadline);
}

absl::Status StepExecutor::Run(const Instruction& instruction, Purpose purpose, int64_t data_step) {
  switch (instruction.kind) {
    case InstructionKind::kForward:
      return Forward(instruction, purpose, data_step);
    case InstructionKind::kBackward:
      return Backward(instruction);
    case InstructionKind::kReceiveActivation:
    case InstructionKind::kSendActivation:
    case InstructionKind::kReceiveGradient:
    case InstructionKind::kSendGradient:
      return exchange_.Transfer(instruction, Deadline());
    case InstructionKind::kReduceGradients:
      return exchange_.Reduce(instruction.slice, gradients_ready_[instruction.slice], Deadline());
    case InstructionKind::kNormGradients:
      return CollectNorms();
    case InstructionKind::kReduceScalars:
      return ReduceScalars();
    case InstructionKind::kUpdateParameters:
      return Update();
    case InstructionKind::kGatherActivation:
    case InstructionKind::kGatherGradient:
      return absl::UnimplementedError("units of several devices");
  }
  return absl::InternalError("unknown instruction");
}

absl::Status StepExecutor::Finish() { return shard_.queue().Wait(shard_.queue().Record()); }

absl::Status StepExecutor::Forward(const Instruction& instruction, Purpose purpose, int64_t data_step) {
  RETURN_IF_ERROR(LoadTokens(instruction, purpose, data_step));
  RETURN_IF_ERROR(shard_.Forward(BuffersOf(instruction), purpose));
  return Finish();
}

absl::Status StepExecutor::Backward(const Instruction& instruction) {
  const BlockRange piece = instruction.blocks;
  RETURN_IF_ERROR(shard_.Backward(BuffersOf(instruction), piece));
  // Before the next piece is submitted, so that nobody waits for that one.
  const Fence done = shard_.queue().Record();
  for (size_t i = 0; i < train_program_.slices.size(); ++i) {
    if (piece.contains(train_program_.slices[i].completed_by)) gradients_ready_[i] = done;
  }
  return shard_.queue().Wait(done);
}

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
  const int stash = instruction.BufferOf(BufferKind::kStash);
  if (inputs) RETURN_IF_ERROR(shard_.SetTokens(stash, input_ids));
  if (targets) RETURN_IF_ERROR(shard_.SetTargets(stash, target_ids));
  return absl::OkStatus();
}

absl::Status StepExecutor::CollectNorms() {
  for (const int segment : owned_segments_) {
    ASSIGN_OR_RETURN(scalars_.squared_norm(segment), shard_.SquaredGradientNorm(segment));
  }
  return absl::OkStatus();
}

absl::Status StepExecutor::ReduceScalars() {
  if (Holds(options_.plan.units[train_program_.unit], options_.spec.shape.model.head_block())) {
    ASSIGN_OR_RETURN(scalars_.loss(), shard_.TakeLossSum());
  }
  scalars_.wishes() = wishes_to_finish() ? 1 : 0;
  return Sum(absl::MakeSpan(scalars_.values), Deadline());
}

absl::Status StepExecutor::Update() {
  const OptimizerSettings& optimizer = options_.spec.optimizer;
  const double norm = scalars_.norm();
  if (!std::isfinite(scalars_.loss()) || !std::isfinite(norm)) {
    // Every rank decides by the same bits.
    if (skipped_in_a_row_ < optimizer.skip_non_finite) {
      ++skipped_in_a_row_;
      RETURN_IF_ERROR(shard_.ZeroGradients());
      return Finish();
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "the %s is not finite (loss sum %g, gradient norm %g)%s; nothing was updated. Try a lower learning rate, a longer "
        "warm-up, or gradient clipping", std::isfinite(scalars_.loss()) ? "gradient norm" : "loss", scalars_.loss(), norm,
        skipped_in_a_row_ > 0 ? absl::StrFormat(", after %d steps in a row that were skipped", skipped_in_a_row_) : ""));
  }
  skipped_in_a_row_ = 0;
  const bool clips = optimizer.clip_norm > 0 && norm > optimizer.clip_norm;
  RETURN_IF_ERROR(shard_.UpdateParameters(
      {.learning_rate = static_cast<float>(LearningRateAt(optimizer, step_, options_.spec.steps)),
       .beta1 = static_cast<float>(optimizer.beta1), .beta2 = static_cast<float>(optimizer.beta2),
       .epsilon = static_cast<float>(optimizer.epsilon), .weight_decay = static_cast<float>(optimizer.weight_decay),
       .gradient_scale = clips ? static_cast<float>(optimizer.clip_norm / (norm + 1e-6)) : 1.0f, .step = step_}));
  return Finish();
}

}  // namespace medley
