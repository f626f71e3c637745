#include "runtime/device/rank_group.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "absl/functional/function_ref.h"
#include "kernels/reference/reference_backend.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/shard/model_shard.h"
#include "runtime/ir/model/row_counts.h"
#include "runtime/ir/program/group_exchanges.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

// Ranks on threads of this process, with memory that the host reaches.
class MeetingPoint {
 public:
  explicit MeetingPoint(int ranks) : slices_(ranks) {}

  int ranks() const { return static_cast<int>(slices_.size()); }

  // `exchange` is called once, by the last to come, with the values of all.
  void Meet(int member, float* values, absl::FunctionRef<void(absl::Span<float* const>)> exchange) {
    MutexLock lock(mutex_);
    slices_[member] = values;
    const int round = round_;
    if (++arrived_ == static_cast<int>(slices_.size())) {
      exchange(slices_);
      arrived_ = 0;
      ++round_;
      changed_.NotifyAll();
    }
    changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return round_ != round; });
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<float*> slices_;
  int arrived_ = 0, round_ = 0;
};

class HostGroup final : public RankGroup {
 public:
  HostGroup(MeetingPoint& point, int member) : point_(point), member_(member) {}
  int members() const override { return point_.ranks(); }
  int member() const override { return member_; }
  absl::Status Sum(const Slice& x) override {
    ++sums;
    Meet(x, [&](absl::Span<float* const> slices) {
      for (float* slice : slices.subspan(1)) Add(slice, {0, x.elements}, slices[0]);
      for (float* slice : slices.subspan(1)) std::copy_n(slices[0], x.elements, slice);
    });
    return absl::OkStatus();
  }
  // What is summed is not a number until the sum is ended, and nobody's to write.
  absl::Status BeginSum(const Slice& x) override {
    if (begun_.has_value()) return absl::InternalError("a sum is under way");
    begun_ = x;
    float* const values = Values(x);
    taken_.assign(values, values + x.elements);
    std::fill_n(values, x.elements, std::nanf(""));
    return absl::OkStatus();
  }
  absl::Status EndSum() override {
    if (!begun_.has_value()) return absl::InternalError("no sum is under way");
    const Slice x = *std::exchange(begun_, std::nullopt);
    float* const values = Values(x);
    if (!std::all_of(values, values + x.elements, [](float value) { return std::isnan(value); }))
      return absl::InternalError("somebody wrote what is summed");
    std::copy(taken_.begin(), taken_.end(), values);
    return Sum(x);
  }
  absl::Status Gather(const Slice& x, absl::Span<const int64_t> ends) override {
    ++gathers;
    Meet(x, [&](absl::Span<float* const> slices) {
      for (size_t m = 0; m < slices.size(); ++m) {
        const RowRange part = PartOf(ends, m);
        for (float* slice : slices) {
          if (slice != slices[m]) std::copy_n(slices[m] + part.first, part.size(), slice + part.first);
        }
      }
    });
    return absl::OkStatus();
  }
  // What is not a member's part is not a number afterwards.
  absl::Status Scatter(const Slice& x, absl::Span<const int64_t> ends) override {
    ++scatters;
    Meet(x, [&](absl::Span<float* const> slices) {
      for (size_t m = 0; m < slices.size(); ++m) {
        for (size_t other = 0; other < slices.size(); ++other) {
          if (other != m) Add(slices[other], PartOf(ends, m), slices[m]);
        }
      }
      for (size_t m = 0; m < slices.size(); ++m) {
        const RowRange part = PartOf(ends, m);
        std::fill(slices[m], slices[m] + part.first, std::nanf(""));
        std::fill(slices[m] + part.end, slices[m] + x.elements, std::nanf(""));
      }
    });
    return absl::OkStatus();
  }
  int sums = 0, gathers = 0, scatters = 0;

 private:
  static RowRange PartOf(absl::Span<const int64_t> ends, size_t member) {
    return {member == 0 ? 0 : ends[member - 1], ends[member]};
  }
  static void Add(const float* values, RowRange range, float* sum) {
    for (int64_t i = range.first; i < range.end; ++i) sum[i] += values[i];
  }
  void Meet(const Slice& x, absl::FunctionRef<void(absl::Span<float* const>)> exchange) {
    point_.Meet(member_, Values(x), exchange);
  }
  static float* Values(const Slice& x) {
    return reinterpret_cast<float*>(x.buffer->host_address() + x.offset_bytes);
  }

  MeetingPoint& point_;
  const int member_;
  std::optional<Slice> begun_;
  std::vector<float> taken_;
};

const ModelConfig kModels[] = {
    {.layers = 3, .hidden = 12, .heads = 4, .feed_forward = 20, .vocabulary = 11, .context = 8},
    {.layers = 3,
     .hidden = 12,
     .heads = 8,
     .feed_forward = 20,
     .vocabulary = 11,
     .context = 8,
     .family = ModelFamily::kLlama,
     .tied_head = false,
     .key_value_heads = 4,
     .head_size = 4},
};
constexpr int kMicroBatch = 3;

// How the passes of a shard go.
struct Way {
  BlockRange blocks;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::kNone;
  bool gradients_apart = false;  // of the input, and of the weights
  int exchange_parts = 1;
};

BufferCounts BuffersOf(const TrainingShape& shape, const Way& way) {
  BufferCounts buffers = BuffersOfOne(shape.model, way.blocks, Dtype::kF32);
  if (way.gradients_apart) buffers.deferred = {1};
  buffers.recompute = way.recompute;
  buffers.recomputed = way.recompute == Recompute::kNone ? 0 : 1;
  return buffers;
}

Device OpenReference() {
  return *ReferenceBackend().open(
      {.name = "test", .backend = "reference", .cores = {0}, .memory_limit = GiB(1)});
}

std::vector<float> Values(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
  return values;
}

std::vector<int32_t> Tokens(const TrainingShape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(kMicroBatch * shape.sequence);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % shape.model.vocabulary);
  return tokens;
}

std::vector<float> Read(ModelShard& shard, BufferKind kind) {
  const Slice slice = shard.BoundaryOf({kind, 0});
  std::vector<float> values(slice.elements);
  const absl::Span<std::byte> bytes(reinterpret_cast<std::byte*>(values.data()), values.size() * 4);
  if (!shard.queue().Download(*slice.buffer, {slice.offset_bytes}, bytes).ok()) values.clear();
  return values;
}

// The first and the last element of what a shard has of a boundary of the micro-batch.
RowRange HeldElements(const ModelShard& shard) {
  const TrainingShape& shape = shard.options().shape;
  const RowRange own = OwnRows(shard.options().buffers, int64_t{kMicroBatch} * shape.sequence);
  return {own.first * shape.model.hidden, own.end * shape.model.hidden};
}

// Fills what comes from others with made-up values.
absl::Status SetInputs(ModelShard& shard, const Way& way) {
  const TrainingShape& shape = shard.options().shape;
  const bool embeds = way.blocks.contains(shape.model.embedding_block()),
             has_head = way.blocks.contains(shape.model.head_block());
  if (embeds) RETURN_IF_ERROR(shard.SetTokens({}, Tokens(shape, 1)));
  if (has_head) RETURN_IF_ERROR(shard.SetTargets({}, Tokens(shape, 2)));
  const RowRange held = HeldElements(shard);
  for (const BufferKind kind : {BufferKind::kInput, BufferKind::kOutputGradient}) {
    if (kind == BufferKind::kInput ? embeds : has_head) continue;
    const std::vector<float> values =
        Values(int64_t{kMicroBatch} * shape.sequence * shape.model.hidden, static_cast<uint64_t>(kind));
    const Slice slice = shard.BoundaryOf({kind, 0});
    RETURN_IF_ERROR(shard.queue().Upload({reinterpret_cast<const std::byte*>(values.data() + held.first),
                                          static_cast<size_t>(held.size()) * 4},
                                         *slice.buffer, {slice.offset_bytes}));
  }
  return absl::OkStatus();
}

// A forward and a backward of a micro-batch.
absl::Status Pass(ModelShard& shard, const Way& way) {
  const ModelConfig& model = shard.options().shape.model;
  RETURN_IF_ERROR(shard.arena().Initialise(3));
  RETURN_IF_ERROR(SetInputs(shard, way));
  const bool embeds = way.blocks.contains(model.embedding_block()),
             has_head = way.blocks.contains(model.head_block());
  const ModelShard::PassBuffers buffers = {.deferred = way.gradients_apart ? 0 : -1,
                                           .recomputed = way.recompute == Recompute::kNone ? -1 : 0,
                                           .input = embeds ? -1 : 0,
                                           .output = has_head ? -1 : 0,
                                           .input_gradient = embeds ? -1 : 0,
                                           .output_gradient = has_head ? -1 : 0};
  RETURN_IF_ERROR(shard.Forward(buffers, Purpose::kTrain));
  if (way.gradients_apart) {
    RETURN_IF_ERROR(shard.InputGradient(buffers));
    RETURN_IF_ERROR(shard.WeightGradient(buffers));
  } else {
    for (int block = way.blocks.end - 1; block >= way.blocks.first; --block) {
      const bool is_layer = block != model.embedding_block() && block != model.head_block();
      if (way.recompute != Recompute::kNone && is_layer)
        RETURN_IF_ERROR(shard.MakeAgain(buffers, {block, block + 1}));
      RETURN_IF_ERROR(shard.Backward(buffers, {block, block + 1}));
    }
  }
  return shard.JoinGradients(0, way.blocks);
}

// What the ranks of a unit exchange in such a pass, as it is predicted.
std::map<ExchangeKind, int> PredictedExchanges(const TrainingShape& shape, const Way& way, int ranks) {
  std::vector<InstructionKind> kinds = {InstructionKind::kForward};
  if (way.gradients_apart) {
    kinds.insert(kinds.end(), {InstructionKind::kInputGradient, InstructionKind::kWeightGradient});
  } else {
    kinds.push_back(InstructionKind::kBackward);
  }
  if (way.recompute != Recompute::kNone) kinds.push_back(InstructionKind::kRecompute);
  if (way.sequence_parallel) kinds.push_back(InstructionKind::kJoinGradients);
  std::map<ExchangeKind, int> counts;
  for (const InstructionKind kind : kinds) {
    for (const GroupExchange& exchange :
         GroupExchanges(shape.model, {.kind = kind,
                                     .blocks = way.blocks,
                                     .rows = int64_t{kMicroBatch} * shape.sequence,
                                     .degree = ranks,
                                     .sequence_parallel = way.sequence_parallel,
                                     .sequences = kMicroBatch,
                                     .parts = way.exchange_parts}))
      counts[exchange.kind] += exchange.count;
  }
  return counts;
}

TEST_CASE(
    "ranks that share blocks, evenly or not, by rows too or in parts or not, compute what one device does",
    "[property]") {
  const TrainingShape shape{
      .model = kModels[GENERATE(0, 1)], .sequence = GENERATE(6, 7), .global_batch_sequences = kMicroBatch};
  const BlockRange whole_model = {0, shape.model.blocks()}, layers = {1, 3};
  const Way way = GENERATE_COPY(values<Way>({{layers},
                                             {whole_model},
                                             {layers, true},
                                             {layers, true, Recompute::kLayers},
                                             {layers, true, Recompute::kNone, true},
                                             {whole_model, true},
                                             {whole_model, true, Recompute::kAllButAttention},
                                             {whole_model, true, Recompute::kNone, true},
                                             {layers, false, Recompute::kNone, false, 2},
                                             {layers, false, Recompute::kLayers, false, 3},
                                             {whole_model, false, Recompute::kAllButAttention, false, 2},
                                             {whole_model, false, Recompute::kNone, true, 2},
                                             {whole_model, false, Recompute::kNone, false, 3},
                                             // Parts that cut sequences.
                                             {layers, false, Recompute::kLayers, false, 4},
                                             {whole_model, false, Recompute::kAllButAttention, false, 5},
                                             {whole_model, false, Recompute::kNone, true, 7},
                                             {whole_model, false, Recompute::kNone, false, 4}}));
  const std::vector<ModelShare> shares = GENERATE_COPY(
      values<std::vector<ModelShare>>({EvenShares(shape.model, 2),
                                       EvenShares(shape.model, 3),
                                       EvenShares(shape.model, 4),
                                       {{{0, 3}, {0, 7}, {0, 10}}, {{3, 4}, {7, 20}, {10, 11}}},
                                       {{{0, 1}, {0, 19}, {0, 1}}, {{1, 4}, {19, 20}, {1, 11}}}}));
  const int ranks = static_cast<int>(shares.size());
  CAPTURE(FamilyOf(shape.model).name, shape.sequence, ranks, shares[0].key_value_heads.end, way.blocks.size(),
          way.sequence_parallel, static_cast<int>(way.recompute), way.gradients_apart, way.exchange_parts);
  Device device = OpenReference();
  ShardOptions options{.shape = shape,
                       .chunks = {way.blocks},
                       .micro_batch_sequences = kMicroBatch,
                       .buffers = BuffersOf(shape, way)};
  const auto whole = *ModelShard::Create(device, options);
  REQUIRE(Pass(*whole, way).ok());

  MeetingPoint point(ranks);
  std::vector<Device> devices;
  std::vector<std::unique_ptr<HostGroup>> groups;
  std::vector<std::unique_ptr<ModelShard>> shards;
  for (int member = 0; member < ranks; ++member) {
    devices.push_back(OpenReference());
    groups.push_back(std::make_unique<HostGroup>(point, member));
  }
  options.buffers.ranks = ranks;
  options.buffers.sequence_parallel = way.sequence_parallel;
  options.buffers.exchange_parts = way.exchange_parts;
  for (int member = 0; member < ranks; ++member) {
    options.share = shares[member];
    options.buffers.member = member;
    shards.push_back(*ModelShard::Create(devices[member], options));
    shards.back()->SetGroup(groups[member].get());
    CHECK(devices[member].queue->allocated() < device.queue->allocated());
  }
  std::vector<absl::Status> statuses(ranks);
  std::vector<std::thread> threads;
  for (int member = 0; member < ranks; ++member) {
    threads.emplace_back([&, member] { statuses[member] = Pass(*shards[member], way); });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<ExchangeKind, int> exchanges = PredictedExchanges(shape, way, ranks);
  for (int member = 0; member < ranks; ++member) {
    CAPTURE(member);
    REQUIRE(statuses[member].ok());
    CHECK(groups[member]->sums == exchanges[ExchangeKind::kSum]);
    CHECK(groups[member]->gathers == exchanges[ExchangeKind::kGather]);
    CHECK(groups[member]->scatters == exchanges[ExchangeKind::kScatter]);
    if (way.blocks == whole_model) continue;
    const RowRange held = HeldElements(*shards[member]);
    for (const BufferKind kind : {BufferKind::kOutput, BufferKind::kInputGradient}) {
      const std::vector<float> got = Read(*shards[member], kind), want = Read(*whole, kind);
      REQUIRE(static_cast<int64_t>(got.size()) == held.size());
      for (int64_t i = 0; i < held.size(); ++i) CHECK(got[i] == Approx(want[held.first + i]).margin(2e-5));
    }
  }
  if (way.blocks == whole_model) {
    double loss = 0;
    for (const auto& shard : shards) loss += *shard->TakeLossSum();
    CHECK(loss == Approx(*whole->TakeLossSum()).epsilon(1e-6));
  }
  for (const PlacedParameter& placed : whole->arena().layout().parameters) {
    CAPTURE(placed.spec.name);
    std::vector<float> want(placed.spec.elements);
    REQUIRE(whole->arena().Read(Part::kGradient, placed.spec.name, absl::MakeSpan(want)).ok());
    // What is not cut each rank has, and has all of.
    std::vector<float> together(placed.spec.elements, std::nanf(""));
    for (const auto& shard : shards) {
      REQUIRE(shard->arena().Read(Part::kGradient, placed.spec.name, absl::MakeSpan(together)).ok());
      if (placed.spec.cut != TensorCut::kNone && shard != shards.back()) continue;
      for (size_t i = 0; i < want.size(); ++i) CHECK(together[i] == Approx(want[i]).margin(2e-5));
    }
  }
}

}  // namespace
}  // namespace medley
