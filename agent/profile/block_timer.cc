#include "agent/profile/block_timer.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "absl/time/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/model/model_shard.h"

namespace medley {
namespace {

constexpr double kEnoughSeconds = 0.2;
constexpr double kMostSeconds = 2.0;
constexpr int kEnoughRepetitions = 5;

// The lower quartile: what a pass takes when nothing disturbs it. A median of so few is moved by one burst of noise.
double Steady(std::vector<double> values) {
  const auto quartile = values.begin() + static_cast<int64_t>(values.size()) / 4;
  std::nth_element(values.begin(), quartile, values.end());
  return *quartile;
}

// A shard of `blocks` of a small model of the same layer shape, with one micro-batch of made-up tokens.
class TimedShard {
 public:
  static absl::StatusOr<TimedShard> Create(Device& device, const TrainingShape& shape, Precision precision,
                                           BlockRange blocks, int micro_batch) {
    TimedShard timed;
    const bool first = blocks.contains(shape.model.embedding_block()), last = blocks.contains(shape.model.head_block());
    ASSIGN_OR_RETURN(timed.shard_,
                     ModelShard::Create(device, {.shape = shape,
                                                 .blocks = blocks,
                                                 .micro_batch_sequences = micro_batch,
                                                 .slots = {.stash = 1, .input = first ? 0 : 1, .output = last ? 0 : 1,
                                                           .input_gradient = first ? 0 : 1,
                                                           .output_gradient = last ? 0 : 1},
                                                 .precision = precision}));
    timed.device_ = &device;
    timed.slots_ = {.stash = 0, .input = first ? -1 : 0, .output = last ? -1 : 0};
    timed.gradient_slots_ = {.stash = 0, .input = first ? -1 : 0, .output_gradient = last ? -1 : 0,
                             .input_gradient = first ? -1 : 0};
    std::vector<int32_t> tokens(static_cast<size_t>(micro_batch) * shape.sequence);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 2654435761u % shape.model.vocabulary);
    if (first) RETURN_IF_ERROR(timed.shard_->SetTokens(0, tokens));
    if (last) RETURN_IF_ERROR(timed.shard_->SetTargets(0, tokens));
    RETURN_IF_ERROR(timed.shard_->arena().Initialise(1));
    RETURN_IF_ERROR(timed.FillBoundaries());
    return timed;
  }

  ModelShard& shard() { return *shard_; }

  absl::StatusOr<double> Seconds(const std::function<absl::Status()>& submit) {
    const absl::Time start = absl::Now();
    RETURN_IF_ERROR(submit());
    RETURN_IF_ERROR(device_->queue->Wait(device_->queue->Record()));
    return absl::ToDoubleSeconds(absl::Now() - start);
  }

  absl::StatusOr<MeasuredPass> TimePasses() {
    std::vector<double> forward, backward;
    double spent = 0;
    // The first repetition warms up.
    for (int i = 0; i < 2 || (spent < kMostSeconds && (i < kEnoughRepetitions || spent < kEnoughSeconds)); ++i) {
      ASSIGN_OR_RETURN(const double f, Seconds([&] { return shard_->Forward(slots_, Purpose::kTrain); }));
      ASSIGN_OR_RETURN(const double b, Seconds([&] { return shard_->Backward(gradient_slots_); }));
      spent += f + b;
      if (i == 0) continue;
      forward.push_back(f);
      backward.push_back(b);
    }
    return MeasuredPass{Steady(forward), Steady(backward)};
  }

 private:
  // Values as they are in training: denormals and zeros would be another speed.
  absl::Status FillBoundaries() {
    using Boundary = ModelShard::Boundary;
    const ShardOptions& options = shard_->options();
    const std::pair<Boundary, int> places[] = {{Boundary::kInput, options.slots.input},
                                               {Boundary::kOutputGradient, options.slots.output_gradient}};
    for (const auto& [boundary, slots] : places) {
      if (slots == 0) continue;
      const Slice slice = shard_->BoundaryOf(boundary, 0);
      std::vector<float> values(slice.elements);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 2654435761u % 2001) * 1e-3f - 1.0f;
      RETURN_IF_ERROR(device_->queue->Upload({reinterpret_cast<const std::byte*>(values.data()), values.size() * 4},
                                             *slice.buffer, {slice.offset_bytes}));
    }
    return absl::OkStatus();
  }

  Device* device_ = nullptr;
  std::unique_ptr<ModelShard> shard_;
  ModelShard::PassSlots slots_;
  ModelShard::GradientSlots gradient_slots_;
};

class BlockTimer {
 public:
  BlockTimer(Device& device, const TrainingShape& shape, Precision precision)
      : device_(device), shape_(shape), precision_(precision) {
    shape_.model.layers = std::min(shape.model.layers, 2);
  }

  absl::StatusOr<MicroBatchTimes> TimeOne(int size) {
    MicroBatchTimes times{.micro_batch_sequences = size};
    const int head = shape_.model.head_block();
    ASSIGN_OR_RETURN(times.embedding, Time({0, 1}, size));
    ASSIGN_OR_RETURN(times.head, Time({head, head + 1}, size));
    absl::StatusOr<MeasuredPass> layers = Time({1, head}, size);
    int count = shape_.model.layers;
    if (absl::IsResourceExhausted(layers.status()) && count > 1) {
      count = 1;
      layers = Time({1, 2}, size);
    }
    RETURN_IF_ERROR(layers.status());
    times.layer = {layers->forward_seconds / count, layers->backward_seconds / count};
    return times;
  }

  // Update and norm, and what the ops keep for a parameter, on layers.
  absl::Status TimeUpdate(int size, DeviceTimes& times) {
    ASSIGN_OR_RETURN(TimedShard timed, TimedShard::Create(device_, shape_, precision_, {1, 2}, size));
    const double elements = static_cast<double>(timed.shard().arena().layout().elements);
    RETURN_IF_ERROR(timed.TimePasses().status());
    times.copy_bytes_per_parameter = KeptBytes() / elements;
    std::vector<double> update, norm;
    for (int i = 0; i < kEnoughRepetitions; ++i) {
      ASSIGN_OR_RETURN(const double n, timed.Seconds([&] { return timed.shard().SquaredGradientNorm(2).status(); }));
      ASSIGN_OR_RETURN(const double u, timed.Seconds([&] {
        return timed.shard().UpdateParameters({.learning_rate = 1e-6f, .step = i + 1});
      }));
      norm.push_back(n);
      update.push_back(u);
    }
    times.update_seconds_per_parameter = Steady(update) / elements;
    times.norm_seconds_per_parameter = Steady(norm) / elements;
    return absl::OkStatus();
  }

  Bytes workspace() const { return workspace_; }

 private:
  absl::StatusOr<MeasuredPass> Time(BlockRange blocks, int size) {
    ASSIGN_OR_RETURN(TimedShard timed, TimedShard::Create(device_, shape_, precision_, blocks, size));
    ASSIGN_OR_RETURN(const MeasuredPass pass, timed.TimePasses());
    KeptBytes();
    return pass;
  }

  // Drops the copies that the ops keep of parameters; returns how much that was, and notes what is left.
  double KeptBytes() {
    const Bytes before = device_.ops->workspace();
    device_.ops->ParametersChanged();
    const Bytes after = device_.ops->workspace();
    workspace_ = std::max(workspace_, after);
    return static_cast<double>((before - after).value);
  }

  Device& device_;
  TrainingShape shape_;
  const Precision precision_;
  Bytes workspace_;
};

MicroBatchTimes Scaled(const MicroBatchTimes& from, int size) {
  const double factor = static_cast<double>(size) / from.micro_batch_sequences;
  const auto scale = [&](const MeasuredPass& pass) {
    return MeasuredPass{pass.forward_seconds * factor, pass.backward_seconds * factor};
  };
  return {.micro_batch_sequences = size, .embedding = scale(from.embedding), .layer = scale(from.layer),
          .head = scale(from.head), .extrapolated = true};
}

}  // namespace

absl::StatusOr<DeviceTimes> TimeBlocks(Device& device, const TrainingShape& shape, Precision precision,
                                       const std::vector<int>& micro_batch_sizes) {
  BlockTimer timer(device, shape, precision);
  DeviceTimes times;
  bool fits = true;
  for (const int size : micro_batch_sizes) {
    absl::StatusOr<MicroBatchTimes> measured =
        fits ? timer.TimeOne(size) : absl::StatusOr<MicroBatchTimes>(absl::ResourceExhaustedError(""));
    if (absl::IsResourceExhausted(measured.status()) && !times.by_micro_batch.empty()) {
      fits = false;
      measured = Scaled(times.by_micro_batch.back(), size);
    }
    RETURN_IF_ERROR(measured.status());
    times.by_micro_batch.push_back(*measured);
  }
  RETURN_IF_ERROR(timer.TimeUpdate(micro_batch_sizes.front(), times));
  times.workspace = timer.workspace();
  return times;
}

}  // namespace medley
