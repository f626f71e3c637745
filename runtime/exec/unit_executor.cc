#include "runtime/exec/unit_executor.h"

#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "comm/collective/all_reduce_scalars.h"
#include "comm/collective/ring_all_reduce.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using Boundary = ModelShard::Boundary;

std::vector<int> AllUnits(const Plan& plan) {
  std::vector<int> units(plan.units.size());
  std::iota(units.begin(), units.end(), 0);
  return units;
}

std::string Where(const Instruction& instruction) {
  std::string text = NameOf(instruction.kind);
  if (instruction.micro_batch >= 0) text += absl::StrFormat(" of micro-batch %d", instruction.micro_batch);
  if (instruction.peer >= 0) text += absl::StrFormat(" with unit %d", instruction.peer);
  return text;
}

}  // namespace

UnitExecutor::UnitExecutor(Options options, ModelShard& shard, Transport& transport, WindowSource& windows)
    : options_(std::move(options)),
      shard_(shard),
      transport_(transport),
      windows_(windows),
      train_program_(CompileStep(options_.plan, options_.unit, options_.spec.shape, Purpose::kTrain)),
      evaluate_program_(CompileStep(options_.plan, options_.unit, options_.spec.shape, Purpose::kEvaluate)),
      owned_segments_(OwnedSegments(options_.plan, options_.unit, options_.spec.shape.model)),
      all_units_(AllUnits(options_.plan)),
      scalars_(SegmentCount(options_.spec.shape.model) + 1) {
  const SlotCounts& slots = train_program_.slots;
  const std::pair<Boundary, int> counts[] = {{Boundary::kInput, slots.input},
                                             {Boundary::kOutput, slots.output},
                                             {Boundary::kInputGradient, slots.input_gradient},
                                             {Boundary::kOutputGradient, slots.output_gradient}};
  for (const auto& [boundary, count] : counts) {
    for (int slot = 0; slot < count; ++slot) {
      mirrors_[static_cast<int>(boundary)].emplace_back(shard_.queue(), shard_.BoundaryOf(boundary, slot));
    }
  }
  for (const GradientSlice& slice : train_program_.slices) {
    gradient_mirrors_.emplace_back(shard_.queue(), shard_.arena().Segments(ParameterArena::Part::kGradient,
                                                                           slice.first_segment, slice.end_segment));
  }
}

absl::Time UnitExecutor::Deadline() const { return absl::Now() + options_.stall_timeout + 10 * longest_step_; }

StepRun UnitExecutor::RunProgram(const StepProgram& program, Purpose purpose, int64_t data_step) {
  std::fill(scalars_.begin(), scalars_.end(), 0.0);
  return RunStreams(
      program, [&](const Instruction& instruction) {
        return Annotate(Run(instruction, purpose, data_step), Where(instruction));
      },
      [&](const absl::Status& failure) { transport_.Abort(std::string(failure.message())); });
}

absl::StatusOr<StepOutcome> UnitExecutor::TrainStep(int64_t step) {
  step_ = step;
  StepRun run = RunProgram(train_program_, Purpose::kTrain, step - 1);
  if (!run.status.ok()) return Annotate(run.status, absl::StrFormat("step %d", step));
  const TrainingShape& shape = options_.spec.shape;
  const double tokens = static_cast<double>(shape.global_batch_sequences) * shape.sequence;
  const double squared = std::accumulate(scalars_.begin(), scalars_.end() - 1, 0.0);
  const absl::Duration length = absl::Now() - run.started_at;
  longest_step_ = std::max(longest_step_, length);
  return StepOutcome{.loss = scalars_.back() / tokens,
                     .gradient_norm = std::sqrt(squared),
                     .learning_rate = LearningRateAt(options_.spec.optimizer, step, options_.spec.steps),
                     .seconds = absl::ToDoubleSeconds(length),
                     .started_at = run.started_at,
                     .times = std::move(run.times)};
}

absl::StatusOr<double> UnitExecutor::Evaluate() {
  const TrainingShape& shape = options_.spec.shape;
  double sum = 0;
  for (int batch = 0; batch < options_.spec.validation_batches; ++batch) {
    const StepRun run = RunProgram(evaluate_program_, Purpose::kEvaluate, batch);
    if (!run.status.ok()) return Annotate(run.status, absl::StrFormat("validation batch %d", batch));
    sum += scalars_.back();
  }
  return sum / (static_cast<double>(shape.global_batch_sequences) * shape.sequence * options_.spec.validation_batches);
}

absl::Status UnitExecutor::SumOverUnits(absl::Span<double> values) {
  return AllReduceScalars(transport_, all_units_, values, Deadline());
}

absl::Status UnitExecutor::Run(const Instruction& instruction, Purpose purpose, int64_t data_step) {
  switch (instruction.kind) {
    case InstructionKind::kForward:
      return Forward(instruction, purpose, data_step);
    case InstructionKind::kBackward:
      return Backward(instruction);
    case InstructionKind::kReceiveActivation:
    case InstructionKind::kSendActivation:
    case InstructionKind::kReceiveGradient:
    case InstructionKind::kSendGradient:
      return Transfer(instruction);
    case InstructionKind::kReduceGradients:
      return Reduce(instruction.slice);
    case InstructionKind::kNormGradients:
      return CollectNorms();
    case InstructionKind::kReduceScalars:
      return ReduceScalars();
    case InstructionKind::kUpdateParameters:
      return Update();
  }
  return absl::InternalError("unknown instruction");
}

absl::Status UnitExecutor::Finish() { return shard_.queue().Wait(shard_.queue().Record()); }

absl::Status UnitExecutor::Forward(const Instruction& instruction, Purpose purpose, int64_t data_step) {
  RETURN_IF_ERROR(LoadTokens(instruction, purpose, data_step));
  if (instruction.input_slot >= 0) RETURN_IF_ERROR(MirrorOf(Boundary::kInput, instruction.input_slot).ToDevice());
  RETURN_IF_ERROR(shard_.Forward(
      {.stash = instruction.stash_slot, .input = instruction.input_slot, .output = instruction.output_slot}, purpose));
  if (instruction.output_slot >= 0) RETURN_IF_ERROR(MirrorOf(Boundary::kOutput, instruction.output_slot).FromDevice());
  return Finish();
}

absl::Status UnitExecutor::Backward(const Instruction& instruction) {
  // Gradients of boundaries have as many slots as travel; micro-batches of the route take them in turn.
  const int index = instruction.micro_batch - train_program_.position.first_micro_batch;
  const int slots = train_program_.slots.input_gradient, input_gradient = slots > 0 ? index % slots : -1;
  const int output_gradient = instruction.output_slot;
  const BlockRange unit = shard_.options().blocks, piece = instruction.blocks;
  if (output_gradient >= 0 && piece.end == unit.end) {
    RETURN_IF_ERROR(MirrorOf(Boundary::kOutputGradient, output_gradient).ToDevice());
  }
  RETURN_IF_ERROR(shard_.Backward({.stash = instruction.stash_slot, .input = instruction.input_slot,
                                   .output_gradient = output_gradient, .input_gradient = input_gradient}, piece));
  if (input_gradient >= 0 && piece.first == unit.first) {
    RETURN_IF_ERROR(MirrorOf(Boundary::kInputGradient, input_gradient).FromDevice());
  }
  // Before the next piece is submitted, so that the copy does not wait for it.
  const Position& at = train_program_.position;
  const bool is_last = instruction.micro_batch == at.first_micro_batch + at.micro_batches - 1;
  for (size_t s = 0; is_last && s < train_program_.slices.size(); ++s) {
    if (piece.contains(train_program_.slices[s].completed_by)) RETURN_IF_ERROR(gradient_mirrors_[s].FromDevice());
  }
  return Finish();
}

absl::Status UnitExecutor::LoadTokens(const Instruction& instruction, Purpose purpose, int64_t data_step) {
  const ModelConfig& config = options_.spec.shape.model;
  const BlockRange blocks = options_.plan.units[options_.unit].blocks;
  const bool inputs = blocks.contains(config.embedding_block()), targets = blocks.contains(config.head_block());
  if (!inputs && !targets) return absl::OkStatus();
  const int sequence = options_.spec.shape.sequence, count = options_.plan.micro_batch_sequences;
  std::vector<int32_t> window(sequence + 1), input_ids, target_ids;
  for (int i = 0; i < count; ++i) {
    RETURN_IF_ERROR(windows_.Read(purpose, data_step, instruction.micro_batch * count + i, absl::MakeSpan(window)));
    input_ids.insert(input_ids.end(), window.begin(), window.end() - 1);
    target_ids.insert(target_ids.end(), window.begin() + 1, window.end());
  }
  if (inputs) RETURN_IF_ERROR(shard_.SetTokens(instruction.stash_slot, input_ids));
  if (targets) RETURN_IF_ERROR(shard_.SetTargets(instruction.stash_slot, target_ids));
  return absl::OkStatus();
}

absl::Status UnitExecutor::Transfer(const Instruction& instruction) {
  const bool receives = instruction.kind == InstructionKind::kReceiveActivation ||
                        instruction.kind == InstructionKind::kReceiveGradient;
  const bool activation = instruction.kind == InstructionKind::kReceiveActivation ||
                          instruction.kind == InstructionKind::kSendActivation;
  HostMirror& mirror = activation ? receives ? MirrorOf(Boundary::kInput, instruction.input_slot)
                                             : MirrorOf(Boundary::kOutput, instruction.output_slot)
                       : receives ? MirrorOf(Boundary::kOutputGradient, instruction.output_slot)
                                  : MirrorOf(Boundary::kInputGradient, instruction.input_slot);
  const absl::Span<std::byte> bytes = mirror.bytes();
  const MessageTag tag{.kind = activation ? MessageTag::Kind::kActivation : MessageTag::Kind::kGradient,
                       .sequence = static_cast<uint32_t>(instruction.micro_batch)};
  if (receives) {
    ASSIGN_OR_RETURN(const auto transfer, transport_.Receive(instruction.peer, tag, bytes));
    return transfer->Wait(Deadline());
  }
  ASSIGN_OR_RETURN(const auto transfer, transport_.Send(instruction.peer, tag, bytes));
  return transfer->Wait(Deadline());
}

// On the collective stream, beside the compute stream: only that one submits to the device's queue, in Backward and
// CollectNorms.
absl::Status UnitExecutor::Reduce(int slice) {
  const GradientSlice& reduced = train_program_.slices[slice];
  const absl::Span<std::byte> bytes = gradient_mirrors_[slice].bytes();
  const absl::Span<float> values(reinterpret_cast<float*>(bytes.data()), reduced.elements);
  return RingAllReduce(transport_, reduced.holders, static_cast<uint16_t>(reduced.first_segment), values, Deadline());
}

absl::Status UnitExecutor::CollectNorms() {
  for (HostMirror& mirror : gradient_mirrors_) RETURN_IF_ERROR(mirror.ToDevice());
  for (const int segment : owned_segments_) {
    ASSIGN_OR_RETURN(scalars_[segment], shard_.SquaredGradientNorm(segment));
  }
  return absl::OkStatus();
}

absl::Status UnitExecutor::ReduceScalars() {
  if (options_.plan.units[options_.unit].blocks.contains(options_.spec.shape.model.head_block())) {
    ASSIGN_OR_RETURN(scalars_.back(), shard_.TakeLossSum());
  }
  return SumOverUnits(absl::MakeSpan(scalars_));
}

absl::Status UnitExecutor::Update() {
  const OptimizerSettings& optimizer = options_.spec.optimizer;
  const double norm = std::sqrt(std::accumulate(scalars_.begin(), scalars_.end() - 1, 0.0));
  if (!std::isfinite(scalars_.back()) || !std::isfinite(norm)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the %s is not finite (loss sum %g, gradient norm %g); nothing was updated. Try a lower learning rate, a longer "
        "warm-up, or gradient clipping", std::isfinite(scalars_.back()) ? "gradient norm" : "loss", scalars_.back(), norm));
  }
  const bool clips = optimizer.clip_norm > 0 && norm > optimizer.clip_norm;
  RETURN_IF_ERROR(shard_.UpdateParameters(
      {.learning_rate = static_cast<float>(LearningRateAt(optimizer, step_, options_.spec.steps)),
       .beta1 = static_cast<float>(optimizer.beta1), .beta2 = static_cast<float>(optimizer.beta2),
       .epsilon = static_cast<float>(optimizer.epsilon), .weight_decay = static_cast<float>(optimizer.weight_decay),
       .gradient_scale = clips ? static_cast<float>(optimizer.clip_norm / (norm + 1e-6)) : 1.0f, .step = step_}));
  return Finish();
}

}  // namespace medley
