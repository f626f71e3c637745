#include "agent/profile/block_timer.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"
#include "runtime/base/narrow.h"
#include "runtime/base/progress.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/device/queue_timer.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// What AdamW reads and writes of a parameter.
constexpr double kUpdateBytesPerParameter = 32;
// What a forward and a backward pass read and write of a parameter and its gradient.
constexpr double kPassBytesPerParameter = 16;
// A load that others put on the processor needs all the rounds there are, to be known well.
constexpr double kSteadySlowdown = 1.02;
// Times that doubtful sizes are measured anew.
constexpr int kMostRetrials = 2;
// Layers are timed together, and no fewer than this many.
constexpr int kFewestLayers = 2;
// What the passes of all that are timed touch of parameters, gradients and activations: more than caches hold, as in a whole model; as
// long as one repetition takes no longer than this.
constexpr int64_t kBeyondCachesBytes = int64_t{96} << 20;
constexpr double kLongestBeyondCachesSeconds = 0.5;
// Of a parameter with its gradient, and how many numbers as wide as the stream, about, are kept of a row.
constexpr int64_t kTouchedBytesPerParameter = 8, kTouchedBytesOfRow = 4 * 20;
// Of forwards and what is made again, which take turns and are compared alone.
constexpr int kRecomputingRounds = 3;

// How long this thread was ready to compute while others had its processor, since it began; 0 where the
// kernel does not tell.
double WaitedSeconds() {
  std::ifstream file("/proc/thread-self/schedstat");
  double computed = 0, waited = 0;
  file >> computed >> waited;
  return file ? waited * 1e-9 : 0;
}

// A shard of `blocks` of a small model of the same layer shape, with one micro-batch of made-up tokens.
class TimedShard {
 public:
  // `splits`: it also times the two gradients each by itself, which takes more memory; of layers. `recompute`: in place of
  // backwards, what is made again; likewise.
  static absl::StatusOr<TimedShard> Create(Device& device, const TrainingShape& shape, Precision precision,
                                           BlockRange blocks, int micro_batch, bool splits,
                                           Recompute recompute = Recompute::kNone) {
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
    if (first) RETURN_IF_ERROR(timed.shard_->SetTokens(0, tokens));
    if (last) RETURN_IF_ERROR(timed.shard_->SetTargets(0, tokens));
    if (!device.emulated) RETURN_IF_ERROR(timed.shard_->arena().Initialise(1));
    RETURN_IF_ERROR(timed.FillBoundaries());
    for (BlockId piece = blocks.first; piece < blocks.end; piece = timed.pieces_.back().end)
      timed.pieces_.push_back({piece, std::min<BlockId>(piece + kFewestLayers, blocks.end)});
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

  ModelShard& shard() { return *shard_; }

  // On the queue's own clock, as the executor times instructions.
  absl::StatusOr<PassSample> Time(const std::function<absl::Status()>& submit) {
    const double waited_before = computes_here_ ? WaitedSeconds() : 0;
    RETURN_IF_ERROR(timer_->Set(0));
    RETURN_IF_ERROR(submit());
    RETURN_IF_ERROR(timer_->Set(1));
    RETURN_IF_ERROR(device_->queue->Wait(device_->queue->Record()));
    ASSIGN_OR_RETURN(const double seconds, timer_->Seconds(0, 1));
    Progress::OfProcess().Add();
    return PassSample{seconds, computes_here_ ? WaitedSeconds() - waited_before : 0};
  }

  struct Repetition {
    PassSample forward, backward;
    PassSample inputs, weights;  // the gradients once more, each by itself; nothing where they are not apart
    PassSample all() const { return ((PassSample(forward) += backward) += inputs) += weights; }
  };
  absl::StatusOr<Repetition> TimeOnce() {
    Repetition repetition;
    ASSIGN_OR_RETURN(repetition.forward, Time([&] { return shard_->Forward(buffers_, Purpose::kTrain); }));
    ASSIGN_OR_RETURN(repetition.backward, Time([&] { return shard_->Backward(buffers_); }));
    if (split_) {
      ASSIGN_OR_RETURN(repetition.inputs, Time([&] { return shard_->InputGradient(*split_); }));
      ASSIGN_OR_RETURN(repetition.weights, Time([&] { return shard_->WeightGradient(*split_); }));
    }
    return repetition;
  }
  // Both passes through a few of its layers (PieceLayers), which take turns: forwards go onwards and backwards back, as in a step, so that
  // what comes in is what the pass before has made.
  absl::StatusOr<Repetition> TimePiece() {
    const size_t pieces = pieces_.size(), turn = turn_++ % pieces;
    Repetition repetition;
    ASSIGN_OR_RETURN(repetition.forward,
                     Time([&] { return shard_->Forward(buffers_, pieces_[turn], Purpose::kTrain); }));
    ASSIGN_OR_RETURN(repetition.backward,
                     Time([&] { return shard_->Backward(buffers_, pieces_[pieces - 1 - turn]); }));
    return repetition;
  }
  int PieceLayers() const { return pieces_.front().size(); }

  struct RecomputingRepetition {
    PassSample forward, again;
  };
  absl::StatusOr<RecomputingRepetition> TimeRecomputing() {
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

  // Of all its layers, and it has nothing else.
  absl::StatusOr<PassSample> TimeNorms() {
    const std::vector<SegmentId> layers = SegmentsOf(shard_->options().shape.model, shard_->options().chunks);
    return Time([&] { return shard_->ComputeNorms(layers); });
  }
  absl::StatusOr<PassSample> TimeUpdate(int step) {
    return Time([&] { return shard_->UpdateParameters({.learning_rate = 1e-6f, .step = step}); });
  }

 private:
  // Values as they are in training: denormals and zeros would be another speed.
  absl::Status FillBoundaries() {
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

  template <typename Element, typename Value>
  absl::Status Fill(const Slice& slice, const Value& value) {
    std::vector<Element> values(slice.elements);
    for (int64_t i = 0; i < slice.elements; ++i) values[i] = value(i);
    return device_->queue->Upload(
        {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(Element)}, *slice.buffer,
        {slice.offset_bytes});
  }

  Device* device_ = nullptr;
  std::unique_ptr<QueueTimer> timer_;
  // This thread does the device's work. Another device goes on while this thread waits for a processor.
  bool computes_here_ = false;
  std::unique_ptr<ModelShard> shard_;
  std::vector<BlockRange> pieces_;  // of its blocks, that take turns
  size_t turn_ = 0;
  ModelShard::PassBuffers buffers_;
  std::optional<ModelShard::PassBuffers> split_;  // with what lies between the two gradients
};

double OnLine(double x1, double y1, double x2, double y2, double x) {
  return y2 + std::max(0.0, (y2 - y1) / (x2 - x1)) * (x - x2);
}

int EvenOf(int layers) { return layers - layers % kFewestLayers; }

// How many layers of a model are timed together. An emulated device takes as long wherever its memory lies.
int LayersToTime(const Device& device, const TrainingShape& shape, int micro_batch) {
  const ModelConfig& model = shape.model;
  const int64_t of_layer =
      kTouchedBytesPerParameter * SegmentElements(model, SegmentOfBlock(BlockOfLayer(0))) +
      kTouchedBytesOfRow * micro_batch * shape.sequence * model.hidden;
  const int64_t beyond_caches = device.emulated ? 0 : kBeyondCachesBytes / of_layer + 1;
  const int layers = std::max(kFewestLayers, static_cast<int>(beyond_caches));
  if (model.layers < kFewestLayers) return model.layers;
  return EvenOf(std::min(layers, model.layers));
}

// Of both passes over one window.
ModelWork WorkOf(const TrainingShape& shape, double update_seconds_per_parameter) {
  const ModelConfig& model = shape.model;
  const double layer = static_cast<double>(SegmentElements(model, SegmentOfBlock(BlockOfLayer(0))));
  const double head = static_cast<double>(model.vocabulary) * model.hidden;
  ModelWork work;
  const auto flops = [&](BlockId block) {
    const BlockWork of_block = WorkOf(model, block, 1, shape.sequence);
    return of_block.forward.flops + of_block.backward().flops;
  };
  work.layer = {flops(BlockOfLayer(0)), kPassBytesPerParameter * layer};
  work.head = {flops(model.head_block()), kPassBytesPerParameter * head};
  if (update_seconds_per_parameter > 0)
    work.bytes_per_second = kUpdateBytesPerParameter / update_seconds_per_parameter;
  return work;
}

class BlockTimer {
 public:
  BlockTimer(Device& device, const TrainingShape& shape, Precision precision, const std::vector<int>& sizes,
             const TimingLimits& limits)
      : device_(device), shape_(shape), precision_(precision), sizes_(sizes), limits_(limits) {}

  absl::StatusOr<DeviceTimes> Run() {
    DeviceTimes times;
    RETURN_IF_ERROR(Prepare(times));
    RETURN_IF_ERROR(TimeRounds(entries_, limits_.most_rounds, limits_.most_seconds));
    if (!DoubtOfSlowdown(ForeignSlowdown(rounds_)).empty()) {
      // It may have been a compiler that has ended meanwhile.
      rounds_.clear();
      for (const std::unique_ptr<Entry>& entry : entries_) entry->Forget();
      RETURN_IF_ERROR(TimeUpdate(times));
      RETURN_IF_ERROR(TimeRounds(entries_, limits_.most_rounds, limits_.most_seconds));
    }
    RETURN_IF_ERROR(TimeDoubtfulAgain(times));
    times.by_micro_batch = Results();
    RETURN_IF_ERROR(TimeRecomputing(times.by_micro_batch));
    const double slowdown = ForeignSlowdown(rounds_);
    times.update_seconds_per_parameter *= slowdown;
    times.norm_seconds_per_parameter *= slowdown;
    for (MicroBatchTimes& size : times.by_micro_batch) size.doubt = DoubtOfSlowdown(slowdown);
    for (const TimingDoubt& doubt :
         DoubtsOf(times.by_micro_batch, WorkOf(shape_, times.update_seconds_per_parameter))) {
      std::string& text = times.by_micro_batch[doubt.index].doubt;
      absl::StrAppend(&text, text.empty() ? "" : "; ", doubt.why);
    }
    times.workspace = workspace_;
    return times;
  }

 private:
  // A block of one kind at one size, and what was measured of it.
  struct Entry {
    TimedBlock block;
    int index;  // into sizes_
    int layers = 1;
    std::unique_ptr<TimedShard> shard;  // null: gave way to another
    std::vector<PassSample> forward, backward, inputs, weights;
    double seconds = 0;  // of one repetition, as far as is known

    void Forget() {
      forward.clear();
      backward.clear();
      inputs.clear();
      weights.clear();
    }
  };

  BlockRange BlocksOf(const Entry& entry) const {
    if (entry.block == TimedBlock::kEmbedding) return {0, 1};
    const BlockId head = shape_.model.head_block();
    return entry.block == TimedBlock::kHead ? BlockRange{head, head + 1} : BlockRange{1, 1 + entry.layers};
  }

  // Opens the shard and lets it run once, where it is not open. Others give way if they take the memory it
  // needs.
  absl::Status Open(Entry& entry) {
    if (entry.shard != nullptr) return absl::OkStatus();
    const auto create_and_warm_up = [&](bool splits) -> absl::Status {
      ASSIGN_OR_RETURN(TimedShard shard, TimedShard::Create(device_, shape_, precision_, BlocksOf(entry),
                                                            sizes_[entry.index], splits));
      RETURN_IF_ERROR(shard.TimeOnce().status());
      entry.shard = std::make_unique<TimedShard>(std::move(shard));
      return absl::OkStatus();
    };
    const bool of_layers = entry.block == TimedBlock::kLayer;
    absl::Status opened = create_and_warm_up(of_layers);
    if (absl::IsResourceExhausted(opened)) {
      for (const std::unique_ptr<Entry>& other : entries_) other->shard = nullptr;
      opened = create_and_warm_up(of_layers);
    }
    // Few plans put gradients off: not knowing their time is better than not knowing any.
    if (absl::IsResourceExhausted(opened) && of_layers) opened = create_and_warm_up(false);
    return opened;
  }

  // Finds out which sizes of each block are measured, the smallest first, so that what the ops hold by then is what a
  // device needs that has no larger ones.
  absl::Status Prepare(DeviceTimes& times) {
    std::map<TimedBlock, const Entry*> last;  // of each block that goes on
    for (const TimedBlock block : {TimedBlock::kEmbedding, TimedBlock::kHead, TimedBlock::kLayer})
      last[block] = nullptr;
    const size_t blocks = last.size();
    for (int index = 0; index < static_cast<int>(sizes_.size()); ++index) {
      for (auto at = last.begin(); at != last.end();) {
        ASSIGN_OR_RETURN(const Entry* const entry, Prepare(at->first, index, at->second));
        at->second = entry;
        at = entry == nullptr ? last.erase(at) : std::next(at);
      }
      if (index == 0) RETURN_IF_ERROR(TimeUpdate(times));  // what that needs is needed with any size
      NoteWorkspace();
      workspaces_.push_back(last.size() == blocks ? workspace_ : Bytes{0});
    }
    return absl::OkStatus();
  }

  // Of a block at one size; null if that is not measured, for it would take too long, or too much memory. `last`: at the
  // size before; null: this is the first one.
  absl::StatusOr<const Entry*> Prepare(TimedBlock block, int index, const Entry* last) {
    if (last != nullptr) {
      const int layers = block == TimedBlock::kLayer ? std::min(shape_.model.layers, kFewestLayers) : 1;
      const double expected_seconds =
          last->seconds / last->layers * layers * sizes_[index] / sizes_[last->index];
      if (expected_seconds > limits_.longest_repetition_seconds) return nullptr;
    }
    auto entry = std::make_unique<Entry>();
    entry->block = block;
    entry->index = index;
    entry->layers = block == TimedBlock::kLayer ? LayersToTime(device_, shape_, sizes_[index]) : 1;
    absl::Status opened = Open(*entry);
    for (const int layers : {kFewestLayers, 1}) {
      if (!absl::IsResourceExhausted(opened) || entry->layers <= layers) continue;
      entry->layers = layers;
      opened = Open(*entry);
    }
    if (absl::IsResourceExhausted(opened) && last != nullptr) return nullptr;
    RETURN_IF_ERROR(opened);
    ASSIGN_OR_RETURN(TimedShard::Repetition repetition, entry->shard->TimeOnce());
    if (repetition.all().seconds > kLongestBeyondCachesSeconds && entry->layers > kFewestLayers) {
      const double part = kLongestBeyondCachesSeconds / repetition.all().seconds;
      entry->layers = std::max(kFewestLayers, EvenOf(static_cast<int>(part * entry->layers)));
      entry->shard = nullptr;
      RETURN_IF_ERROR(Open(*entry));
      ASSIGN_OR_RETURN(repetition, entry->shard->TimeOnce());
    }
    entry->seconds = repetition.all().seconds;
    return entries_.emplace_back(std::move(entry)).get();
  }

  // One sample: the mean of short passes that follow each other.
  absl::Status TakeTurn(Entry& entry) {
    RETURN_IF_ERROR(Open(entry));
    TimedShard::Repetition sum;
    int count = 0;
    while (count == 0 || sum.all().seconds < limits_.turn_seconds) {
      ASSIGN_OR_RETURN(const TimedShard::Repetition repetition, entry.shard->TimeOnce());
      for (const auto pass : {&TimedShard::Repetition::forward, &TimedShard::Repetition::backward,
                              &TimedShard::Repetition::inputs, &TimedShard::Repetition::weights}) {
        sum.*pass += repetition.*pass;
      }
      ++count;
    }
    rounds_.back() += sum.all();
    const double passes = count * entry.layers;
    const auto mean = [&](const PassSample& of) {
      return PassSample{of.seconds / passes, of.waited_seconds / passes};
    };
    entry.forward.push_back(mean(sum.forward));
    entry.backward.push_back(mean(sum.backward));
    entry.inputs.push_back(mean(sum.inputs));
    entry.weights.push_back(mean(sum.weights));
    return absl::OkStatus();
  }

  template <typename Entries>
  absl::Status TimeRounds(const Entries& entries, int most_rounds, double most_seconds) {
    const absl::Time start = Now();
    for (int round = 0; round < most_rounds; ++round) {
      const double spent = absl::ToDoubleSeconds(Now() - start);
      if (round >= limits_.fewest_rounds) {
        if (spent >= most_seconds) return absl::OkStatus();
        const bool steady =
            WidestSpread() <= limits_.enough_spread && ForeignSlowdown(rounds_) < kSteadySlowdown;
        if (spent >= limits_.enough_seconds && steady) return absl::OkStatus();
      }
      rounds_.emplace_back();
      for (const auto& entry : entries) RETURN_IF_ERROR(TakeTurn(*entry));
    }
    return absl::OkStatus();
  }

  double WidestSpread() const {
    double widest = 0;
    for (const MicroBatchTimes& times : Results()) {
      if (!times.extrapolated) widest = std::max(widest, times.spread(shape_.model.layers));
    }
    return widest;
  }

  absl::Status TimeDoubtfulAgain(const DeviceTimes& times) {
    for (int retrial = 0; retrial < kMostRetrials; ++retrial) {
      std::vector<Entry*> doubtful;
      for (const TimingDoubt& doubt :
           DoubtsOf(Results(), WorkOf(shape_, times.update_seconds_per_parameter))) {
        for (const std::unique_ptr<Entry>& entry : entries_) {
          if (entry->block != doubt.block || entry->index != doubt.index) continue;
          entry->Forget();
          entry->shard = nullptr;  // other memory may be the cure
          doubtful.push_back(entry.get());
        }
      }
      if (doubtful.empty()) return absl::OkStatus();
      RETURN_IF_ERROR(
          TimeRounds(doubtful, limits_.most_rounds / kMostRetrials, limits_.most_seconds / kMostRetrials));
    }
    return absl::OkStatus();
  }

  std::vector<MicroBatchTimes> Results() const {
    std::vector<MicroBatchTimes> results;
    for (int index = 0; index < static_cast<int>(sizes_.size()); ++index) {
      MicroBatchTimes times{.micro_batch_sequences = sizes_[index], .workspace = workspaces_[index]};
      times.embedding = Result(TimedBlock::kEmbedding, index, times.extrapolated);
      times.layer = Result(TimedBlock::kLayer, index, times.extrapolated);
      times.head = Result(TimedBlock::kHead, index, times.extrapolated);
      results.push_back(std::move(times));
    }
    return results;
  }

  // Sets `extrapolated` where the size was not measured.
  MeasuredPass Result(TimedBlock block, int index, bool& extrapolated) const {
    std::vector<std::pair<int, MeasuredPass>> measured;  // sizes, ascending
    for (const std::unique_ptr<Entry>& entry : entries_) {
      if (entry->block != block || entry->forward.empty()) continue;
      const double slowdown = ForeignSlowdown(rounds_);
      const Middle forward = MiddleOf(entry->forward), backward = MiddleOf(entry->backward);
      // The spread of the whole repetition's larger part: a short pass beside a long one is of no account.
      const double spread = std::max(forward.seconds >= 0.2 * backward.seconds ? forward.spread : 0,
                                     backward.seconds >= 0.2 * forward.seconds ? backward.spread : 0);
      const double weights = std::min(MiddleOf(entry->weights).seconds, backward.seconds);
      const double apart = MiddleOf(entry->inputs).seconds + weights;
      const MeasuredPass pass{.forward_seconds = forward.seconds * slowdown,
                              .backward_seconds = backward.seconds * slowdown,
                              .weight_gradient_seconds = weights * slowdown,
                              .spread = spread,
                              .split_seconds = std::clamp(apart - backward.seconds, 0.0, weights) * slowdown};
      if (entry->index == index) return pass;
      measured.emplace_back(sizes_[entry->index], pass);
    }
    if (measured.empty()) return {};  // no round has been yet
    extrapolated = true;
    const auto suggested = [&](double MeasuredPass::*field) {
      const auto& [last_size, last] = measured.back();
      if (measured.size() == 1) return last.*field * sizes_[index] / last_size;
      const auto& [size, before] = measured[measured.size() - 2];
      return OnLine(size, before.*field, last_size, last.*field, sizes_[index]);
    };
    return {.forward_seconds = suggested(&MeasuredPass::forward_seconds),
            .backward_seconds = suggested(&MeasuredPass::backward_seconds),
            .weight_gradient_seconds = suggested(&MeasuredPass::weight_gradient_seconds),
            .spread = measured.back().second.spread,
            .split_seconds = suggested(&MeasuredPass::split_seconds)};
  }

  // Forwards and what is made again take turns, so that how fast the device happens to be does not matter: the part that the one
  // takes of the other is what is measured.
  absl::Status TimeRecomputing(std::vector<MicroBatchTimes>& sizes) {
    for (const std::unique_ptr<Entry>& entry : entries_) entry->shard = nullptr;
    double all = 0, but_attention = 0;  // of sizes that are not measured, as of the largest that is
    for (int index = 0; index < static_cast<int>(sizes.size()); ++index) {
      const auto is_of_size = [&](const auto& e) {
        return e->block == TimedBlock::kLayer && e->index == index;
      };
      if (const auto entry = std::find_if(entries_.begin(), entries_.end(), is_of_size);
          entry != entries_.end()) {
        ASSIGN_OR_RETURN(all, RecomputedPart(**entry, Recompute::kLayers));
        ASSIGN_OR_RETURN(but_attention, RecomputedPart(**entry, Recompute::kAllButAttention));
      }
      MeasuredPass& layer = sizes[index].layer;
      layer.recompute_seconds = all * layer.forward_seconds;
      layer.recompute_but_attention_seconds = std::min(all, but_attention) * layer.forward_seconds;
    }
    return absl::OkStatus();
  }

  // Of a forward; 0: there is no memory to find out.
  absl::StatusOr<double> RecomputedPart(const Entry& entry, Recompute recompute) {
    absl::StatusOr<TimedShard> shard = TimedShard::Create(device_, shape_, precision_, BlocksOf(entry),
                                                          sizes_[entry.index], /*splits=*/false, recompute);
    const absl::Status warm = shard.ok() ? shard->TimeRecomputing().status() : shard.status();
    if (absl::IsResourceExhausted(warm)) return 0;
    RETURN_IF_ERROR(warm);
    std::vector<PassSample> forward, again;
    for (int round = 0; round < kRecomputingRounds; ++round) {
      TimedShard::RecomputingRepetition sum;
      do {
        ASSIGN_OR_RETURN(const TimedShard::RecomputingRepetition one, shard->TimeRecomputing());
        sum.forward += one.forward;
        sum.again += one.again;
      } while (sum.forward.seconds + sum.again.seconds < limits_.turn_seconds);
      forward.push_back(sum.forward);
      again.push_back(sum.again);
    }
    const double forward_seconds = MiddleOf(forward).seconds;
    return forward_seconds > 0 ? MiddleOf(again).seconds / forward_seconds : 0;
  }

  // Update and norm, and what the ops keep for a parameter, on layers.
  absl::Status TimeUpdate(DeviceTimes& times) {
    Entry& entry = **std::find_if(entries_.begin(), entries_.end(),
                                  [](const auto& e) { return e->block == TimedBlock::kLayer; });
    RETURN_IF_ERROR(Open(entry));
    TimedShard& timed = *entry.shard;
    const double elements = static_cast<double>(timed.shard().arena().layout().elements);
    device_.ops->ForgetParameters();  // the copies of other shards
    RETURN_IF_ERROR(timed.TimeOnce().status());
    NoteWorkspace();
    times.copy_bytes_per_parameter =
        static_cast<double>(device_.ops->held().copies.value) /
        static_cast<double>(MultipliedElements(shape_.model, timed.shard().options().chunks));
    std::vector<PassSample> update, norm;
    for (int i = 0; i < 2 * limits_.fewest_rounds; ++i) {
      ASSIGN_OR_RETURN(norm.emplace_back(), timed.TimeNorms());
      ASSIGN_OR_RETURN(update.emplace_back(), timed.TimeUpdate(i + 1));
    }
    update.erase(update.begin());  // the first touches the optimizer's state for the first time
    times.update_seconds_per_parameter = MiddleOf(update).seconds / elements;
    times.norm_seconds_per_parameter = MiddleOf(norm).seconds / elements;
    return absl::OkStatus();
  }

  void NoteWorkspace() { workspace_ = std::max(workspace_, device_.ops->held().scratch); }

  Device& device_;
  const TrainingShape shape_;
  const Precision precision_;
  const std::vector<int>& sizes_;
  const TimingLimits limits_;
  std::vector<std::unique_ptr<Entry>> entries_;  // by size, block
  std::vector<PassSample> rounds_;               // sums of their turns
  Bytes workspace_;                              // the most that the ops have held
  std::vector<Bytes> workspaces_;                // likewise, after each size; 0: some block was not measured
};

// A device's own turn in a round, and that of all.
struct TurnsOfRound {
  // A turn's first repetition finds caches as others have left them: it counts where there is no other.
  struct OfTurn {
    double first_seconds = 0, later_seconds = 0;
    int later = 0;

    void Add(double seconds) {
      if (first_seconds == 0) {
        first_seconds = std::max(seconds, 1e-9);
        return;
      }
      later_seconds += seconds;
      ++later;
    }
  };
  OfTurn alone, together;

  // `seconds`: with what waited for a processor that others had. What else a machine does finds a core that computes nothing as long as
  // there is one, and takes its time from the devices' passes where all compute.
  void Add(bool of_all, double seconds) { (of_all ? together : alone).Add(seconds); }
  bool complete() const { return alone.first_seconds > 0 && together.first_seconds > 0; }
  double ratio() const {
    if (alone.later == 0 || together.later == 0) return together.first_seconds / alone.first_seconds;
    return together.later_seconds / together.later / (alone.later_seconds / alone.later);
  }
};

// At either end, in which others may not have begun or not go on.
constexpr double kStartingShare = 0.125;
// One round in so many times norms and updates.
constexpr int64_t kRoundsAnUpdate = 4;

}  // namespace

absl::StatusOr<DeviceTimes> TimeBlocks(Device& device, const TrainingShape& shape, Precision precision,
                                       const std::vector<int>& micro_batch_sizes,
                                       const TimingLimits& limits) {
  return BlockTimer(device, shape, precision, micro_batch_sizes, limits).Run();
}

absl::StatusOr<SharedTimes> TimeLayerInTurns(Device& device, const TrainingShape& shape, Precision precision,
                                             int micro_batch, double seconds, const HostTurns& turns) {
  const auto of_layers = [&](int count) {
    return TimedShard::Create(device, shape, precision, {1, 1 + count}, micro_batch, /*splits=*/false);
  };
  absl::StatusOr<TimedShard> created = of_layers(LayersToTime(device, shape, micro_batch));
  if (absl::IsResourceExhausted(created.status()) && shape.model.layers > kFewestLayers)
    created = of_layers(kFewestLayers);
  RETURN_IF_ERROR(created.status());
  TimedShard& timed = *created;
  const int layers = timed.PieceLayers();
  int updates = 0;
  const auto time_update = [&]() -> absl::StatusOr<PassSample> {
    ASSIGN_OR_RETURN(PassSample sample, timed.TimeNorms());
    ASSIGN_OR_RETURN(const PassSample update, timed.TimeUpdate(++updates));
    return sample += update;
  };
  const bool in_turns = turns.turn_seconds > 0;
  const auto is_of_update = [&](int64_t round) { return in_turns && round % kRoundsAnUpdate == 0; };
  // The first ones touch memory for the first time.
  if (in_turns) {
    RETURN_IF_ERROR(timed.TimeOnce().status());
    RETURN_IF_ERROR(time_update().status());
  }
  std::map<int64_t, TurnsOfRound> rounds;
  std::vector<PassSample> forward, backward, both;
  const auto keep = [&](const TimedShard::Repetition& repetition) {
    forward.push_back({repetition.forward.seconds / layers, repetition.forward.waited_seconds / layers});
    backward.push_back({repetition.backward.seconds / layers, repetition.backward.waited_seconds / layers});
    both.push_back(repetition.all());
  };
  double last_pass_seconds = 0, last_update_seconds = 0;
  const absl::Time start = Now();
  const auto since_start = [&] { return absl::ToDoubleSeconds(Now() - start); };
  while (since_start() < seconds) {
    const double began = since_start(), clock = UnixSecondsNow();
    const Turn turn = TurnAt(turns, clock);
    const bool of_update = is_of_update(turn.round);
    double& last_seconds = of_update ? last_update_seconds : last_pass_seconds;
    if (!turn.computes || clock + last_seconds > turn.end_seconds) {
      absl::SleepFor(absl::Seconds(std::min(turn.end_seconds - clock, seconds - began)));
      Progress::OfProcess().Add();
      continue;
    }
    PassSample sample;
    TimedShard::Repetition repetition;
    if (of_update) {
      ASSIGN_OR_RETURN(sample, time_update());
    } else {
      ASSIGN_OR_RETURN(repetition, timed.TimePiece());
      sample = repetition.all();
    }
    last_seconds = sample.seconds;
    const bool counts = began >= kStartingShare * seconds &&
                        since_start() <= (1 - kStartingShare) * seconds &&
                        UnixSecondsNow() <= turn.end_seconds;
    if (!counts) continue;
    rounds[turn.round].Add(turn.of_all, sample.seconds);
    if (!of_update && (!in_turns || !turn.of_all)) keep(repetition);
  }
  // Nothing was short enough to count: then one does that is not.
  if (forward.empty()) {
    ASSIGN_OR_RETURN(const TimedShard::Repetition repetition, timed.TimePiece());
    keep(repetition);
  }
  const double slowdown = ForeignSlowdown(both);
  const Middle f = MiddleOf(forward), b = MiddleOf(backward);
  SharedTimes times;
  times.layer = {.forward_seconds = f.seconds * slowdown,
                 .backward_seconds = b.seconds * slowdown,
                 .spread = std::max(f.spread, b.spread)};
  for (const auto& [round, turns_of] : rounds) {
    if (turns_of.complete())
      (is_of_update(round) ? times.update_ratios : times.pass_ratios).push_back(turns_of.ratio());
  }
  return times;
}

}  // namespace medley
