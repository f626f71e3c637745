#include "agent/profile/timed_shard.h"

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "runtime/base/narrow.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// What the passes of all that are timed touch of parameters, gradients and activations: more than caches hold, as in a whole model.
constexpr int64_t kBeyondCachesBytes = int64_t{96} << 20;
// Of a parameter with its gradient, and how many numbers as wide as the stream, about, are kept of a row.
constexpr int64_t kTouchedBytesPerParameter = 8, kTouchedBytesOfRow = 4 * 20;

// How long this thread was ready to compute while others had its processor, since it began; 0 where the
// kernel does not tell.
double WaitedSeconds() {
  std::ifstream file("/proc/thread-self/schedstat");
  double computed = 0, waited = 0;
  file >> computed >> waited;
  return file ? waited * 1e-9 : 0;
}

}  // namespace

int LayersToTime(const Device& device, const TrainingShape& shape, int micro_batch) {
  const ModelConfig& model = shape.model;
  const int64_t of_layer =
      kTouchedBytesPerParameter * SegmentElements(model, SegmentOfBlock(BlockOfLayer(0))) +
      kTouchedBytesOfRow * micro_batch * shape.sequence * model.hidden;
  const int64_t beyond_caches = device.emulated ? 0 : kBeyondCachesBytes / of_layer + 1;
  const int layers = std::max(kFewestTimedLayers, static_cast<int>(beyond_caches));
  if (model.layers < kFewestTimedLayers) return model.layers;
  return WholePieces(std::min(layers, model.layers));
}

absl::StatusOr<TimedShard> TimedShard::Create(Device& device, const TrainingShape& shape, Precision precision,
                                              BlockRange blocks, int micro_batch, bool splits,
                                              Recompute recompute) {
  TimedShard timed;
  BufferCounts buffers = BuffersOfOne(shape.model, blocks, TypeOf(device.computes.For(precision)));
  if (splits) buffers.deferred = {1};
  buffers.recompute = recompute;
  buffers.recomputed = recompute == Recompute::kNone ? 0 : 1;
  const bool first = blocks.contains(shape.model.embedding_block()),
             last = blocks.contains(shape.model.head_block());
  ASSIGN_OR_RETURN(timed.shard_, ModelShard::Create(device, {.shape = shape,
                                                             .chunks = {blocks},
                                                             .micro_batch_sequences = micro_batch,
                                                             .buffers = buffers,
                                                             .precision = precision}));
  timed.device_ = &device;
  ASSIGN_OR_RETURN(timed.timer_, device.queue->OpenTimer(2));
  timed.computes_here_ =
      timed.shard_->arena().Whole(ParameterArena::Part::kParameter).buffer->host_address() != nullptr;
  timed.buffers_ = {.stash = 0,
                    .recomputed = buffers.recomputed - 1,
                    .input = first ? -1 : 0,
                    .output = last ? -1 : 0,
                    .input_gradient = first ? -1 : 0,
                    .output_gradient = last ? -1 : 0};
  std::vector<int32_t> tokens(static_cast<size_t>(micro_batch) * shape.sequence);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(i * 2654435761u % shape.model.vocabulary);
  if (first) RETURN_IF_ERROR(timed.shard_->SetTokens({}, tokens));
  if (last) RETURN_IF_ERROR(timed.shard_->SetTargets({}, tokens));
  if (!device.emulated) RETURN_IF_ERROR(timed.shard_->arena().Initialise(1));
  RETURN_IF_ERROR(timed.FillBoundaries());
  for (BlockId piece = blocks.first; piece < blocks.end; piece = timed.pieces_.back().end)
    timed.pieces_.push_back({piece, std::min<BlockId>(piece + kFewestTimedLayers, blocks.end)});
  // What backwards, and the gradient of the weights, are made of.
  RETURN_IF_ERROR(timed.shard_->Forward(timed.buffers_, Purpose::kTrain));
  if (splits) {
    timed.split_ = timed.buffers_;
    timed.split_->deferred = 0;
    RETURN_IF_ERROR(timed.shard_->InputGradient(*timed.split_));
  }
  RETURN_IF_ERROR(device.queue->Wait(device.queue->Record()));
  return timed;
}

template <typename Element, typename Value>
absl::Status TimedShard::Fill(const Slice& slice, const Value& value) {
  std::vector<Element> values(slice.elements);
  for (int64_t i = 0; i < slice.elements; ++i) values[i] = value(i);
  return device_->queue->Upload(
      {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(Element)}, *slice.buffer,
      {slice.offset_bytes});
}

absl::Status TimedShard::FillBoundaries() {
  for (const BufferKind kind : {BufferKind::kInput, BufferKind::kOutputGradient}) {
    if (shard_->options().buffers.of(kind) == 0) continue;
    const Slice slice = shard_->BoundaryOf({kind, 0});
    const auto value = [](int64_t i) {
      return static_cast<float>(static_cast<uint64_t>(i) * 2654435761u % 2001) * 1e-3f - 1.0f;
    };
    const auto narrow = [&](int64_t i) { return ToNarrow(value(i), slice.dtype); };
    RETURN_IF_ERROR(slice.dtype == Dtype::kF32 ? Fill<float>(slice, value) : Fill<uint16_t>(slice, narrow));
  }
  return absl::OkStatus();
}

absl::StatusOr<PassSample> TimedShard::Time(const std::function<absl::Status()>& submit) {
  const double waited_before = computes_here_ ? WaitedSeconds() : 0;
  RETURN_IF_ERROR(timer_->Set(0));
  RETURN_IF_ERROR(submit());
  RETURN_IF_ERROR(timer_->Set(1));
  RETURN_IF_ERROR(device_->queue->Wait(device_->queue->Record()));
  ASSIGN_OR_RETURN(const double seconds, timer_->Seconds(0, 1));
  Progress::OfProcess().Add();
  return PassSample{seconds, computes_here_ ? WaitedSeconds() - waited_before : 0};
}

absl::StatusOr<BlockRepetition> TimedShard::TimeOnce() {
  BlockRepetition repetition;
  ASSIGN_OR_RETURN(repetition.forward, Time([&] { return shard_->Forward(buffers_, Purpose::kTrain); }));
  ASSIGN_OR_RETURN(repetition.backward, Time([&] { return shard_->Backward(buffers_); }));
  if (split_) {
    ASSIGN_OR_RETURN(repetition.inputs, Time([&] { return shard_->InputGradient(*split_); }));
    ASSIGN_OR_RETURN(repetition.weights, Time([&] { return shard_->WeightGradient(*split_); }));
  }
  return repetition;
}

absl::StatusOr<BlockRepetition> TimedShard::TimePiece() {
  const size_t pieces = pieces_.size(), turn = turn_++ % pieces;
  BlockRepetition repetition;
  ASSIGN_OR_RETURN(repetition.forward,
                   Time([&] { return shard_->Forward(buffers_, pieces_[turn], Purpose::kTrain); }));
  ASSIGN_OR_RETURN(repetition.backward,
                   Time([&] { return shard_->Backward(buffers_, pieces_[pieces - 1 - turn]); }));
  return repetition;
}

absl::StatusOr<TimedShard::RecomputingRepetition> TimedShard::TimeRecomputing() {
  RecomputingRepetition repetition;
  ASSIGN_OR_RETURN(repetition.forward, Time([&] { return shard_->Forward(buffers_, Purpose::kTrain); }));
  ASSIGN_OR_RETURN(repetition.again, Time([&]() -> absl::Status {
                     const BlockRange blocks = shard_->options().chunks[0];
                     for (BlockId layer = blocks.first; layer < blocks.end; ++layer)
                       RETURN_IF_ERROR(shard_->MakeAgain(buffers_, {layer, layer + 1}));
                     return absl::OkStatus();
                   }));
  return repetition;
}

absl::StatusOr<PassSample> TimedShard::TimeNorms() {
  const std::vector<SegmentId> layers = SegmentsOf(shard_->options().shape.model, shard_->options().chunks);
  return Time([&] { return shard_->ComputeNorms(layers); });
}

absl::StatusOr<PassSample> TimedShard::TimeUpdate(int step) {
  return Time([&] { return shard_->UpdateParameters({.learning_rate = 1e-6f, .step = step}); });
}

}  // namespace medley
