#include "agent/profile/block_timer.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/model/model_shard.h"

namespace medley {
namespace {

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
    if (!device.emulated) RETURN_IF_ERROR(timed.shard_->arena().Initialise(1));
    RETURN_IF_ERROR(timed.FillBoundaries());
    return timed;
  }

  ModelShard& shard() { return *shard_; }

  absl::StatusOr<double> Seconds(const std::function<absl::Status()>& submit) {
    const absl::Time start = Now();
    RETURN_IF_ERROR(submit());
    RETURN_IF_ERROR(device_->queue->Wait(device_->queue->Record()));
    return absl::ToDoubleSeconds(Now() - start);
  }

  absl::StatusOr<MeasuredPass> TimeOnce() {
    MeasuredPass pass;
    ASSIGN_OR_RETURN(pass.forward_seconds, Seconds([&] { return shard_->Forward(slots_, Purpose::kTrain); }));
    ASSIGN_OR_RETURN(pass.backward_seconds, Seconds([&] { return shard_->Backward(gradient_slots_); }));
    return pass;
  }

  absl::StatusOr<MeasuredPass> TimePasses(const TimingLimits& limits) {
    std::vector<double> forward, backward;
    double spent = 0;
    // The first repetition warms up.
    for (int i = 0; i < 2 || (spent < limits.most_seconds && (i < kEnoughRepetitions || spent < limits.enough_seconds));
         ++i) {
      ASSIGN_OR_RETURN(const MeasuredPass pass, TimeOnce());
      spent += pass.forward_seconds + pass.backward_seconds;
      if (i == 0) continue;
      forward.push_back(pass.forward_seconds);
      backward.push_back(pass.backward_seconds);
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

double OnLine(double x1, double y1, double x2, double y2, double x) {
  return y2 + std::max(0.0, (y2 - y1) / (x2 - x1)) * (x - x2);
}

// One kind of block, over ascending micro-batch sizes.
class Series {
 public:
  explicit Series(double longest_repetition_seconds) : longest_(longest_repetition_seconds) {}

  // The times that `measure` gives; once it is out of memory or would take too long, those that the sizes before suggest,
  // and sets `extrapolated`.
  absl::StatusOr<MeasuredPass> Next(int size, const std::function<absl::StatusOr<MeasuredPass>()>& measure,
                                    bool& extrapolated) {
    if (!ended_ && !WouldTakeTooLong(size)) {
      absl::StatusOr<MeasuredPass> pass = measure();
      if (pass.ok()) {
        sizes_.push_back(size);
        passes_.push_back(*pass);
        return pass;
      }
      if (!absl::IsResourceExhausted(pass.status()) || sizes_.empty()) return pass;
    }
    ended_ = true;
    extrapolated = true;
    return MeasuredPass{Suggested(size, &MeasuredPass::forward_seconds), Suggested(size, &MeasuredPass::backward_seconds)};
  }

 private:
  bool WouldTakeTooLong(int size) const {
    if (sizes_.empty()) return false;
    const MeasuredPass& last = passes_.back();
    return (last.forward_seconds + last.backward_seconds) * size / sizes_.back() > longest_;
  }

  double Suggested(int size, double MeasuredPass::*field) const {
    const double last = passes_.back().*field, last_size = sizes_.back();
    if (sizes_.size() == 1) return last * size / last_size;
    const size_t before = sizes_.size() - 2;
    return OnLine(sizes_[before], passes_[before].*field, last_size, last, size);
  }

  const double longest_;
  bool ended_ = false;
  std::vector<int> sizes_;
  std::vector<MeasuredPass> passes_;  // parallel to sizes_
};

TrainingShape WithFewLayers(TrainingShape shape) {
  shape.model.layers = std::min(shape.model.layers, 2);
  return shape;
}

class BlockTimer {
 public:
  BlockTimer(Device& device, const TrainingShape& shape, Precision precision, const TimingLimits& limits)
      : device_(device), shape_(WithFewLayers(shape)), precision_(precision), limits_(limits) {}

  absl::StatusOr<MicroBatchTimes> TimeOne(int size) {
    MicroBatchTimes times{.micro_batch_sequences = size};
    const int head = shape_.model.head_block();
    bool& extrapolated = times.extrapolated;
    ASSIGN_OR_RETURN(times.embedding, embedding_.Next(size, [&] { return Time({0, 1}, size); }, extrapolated));
    ASSIGN_OR_RETURN(times.head, head_.Next(size, [&] { return Time({head, head + 1}, size); }, extrapolated));
    ASSIGN_OR_RETURN(times.layer, layer_.Next(size, [&] { return TimeLayer(size); }, extrapolated));
    return times;
  }

  // Update and norm, and what the ops keep for a parameter, on layers.
  absl::Status TimeUpdate(int size, DeviceTimes& times) {
    ASSIGN_OR_RETURN(TimedShard timed, TimedShard::Create(device_, shape_, precision_, {1, 2}, size));
    const double elements = static_cast<double>(timed.shard().arena().layout().elements);
    RETURN_IF_ERROR(timed.TimeOnce().status());
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
    ASSIGN_OR_RETURN(const MeasuredPass pass, timed.TimePasses(limits_));
    KeptBytes();
    return pass;
  }

  absl::StatusOr<MeasuredPass> TimeLayer(int size) {
    int count = shape_.model.layers;
    absl::StatusOr<MeasuredPass> layers = Time({1, 1 + count}, size);
    if (absl::IsResourceExhausted(layers.status()) && count > 1) {
      count = 1;
      layers = Time({1, 2}, size);
    }
    RETURN_IF_ERROR(layers.status());
    return MeasuredPass{layers->forward_seconds / count, layers->backward_seconds / count};
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
  const TrainingShape shape_;
  const Precision precision_;
  const TimingLimits limits_;
  Series embedding_{limits_.longest_repetition_seconds}, head_{limits_.longest_repetition_seconds};
  Series layer_{limits_.longest_repetition_seconds / shape_.model.layers};  // a repetition is of so many
  Bytes workspace_;
};

}  // namespace

absl::StatusOr<DeviceTimes> TimeBlocks(Device& device, const TrainingShape& shape, Precision precision,
                                       const std::vector<int>& micro_batch_sizes, const TimingLimits& limits) {
  BlockTimer timer(device, shape, precision, limits);
  DeviceTimes times;
  for (const int size : micro_batch_sizes) {
    ASSIGN_OR_RETURN(times.by_micro_batch.emplace_back(), timer.TimeOne(size));
  }
  RETURN_IF_ERROR(timer.TimeUpdate(micro_batch_sizes.front(), times));
  times.workspace = timer.workspace();
  return times;
}

}  // namespace medley
