#include "runtime/device/rank_group.h"

#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "kernels/reference/reference_backend.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/shard/model_shard.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

// Ranks on threads of this process, with memory that the host reaches.
class MeetingPoint {
 public:
  explicit MeetingPoint(int ranks) : slices_(ranks) {}

  int ranks() const { return static_cast<int>(slices_.size()); }

  void Sum(int member, float* values, int64_t elements) {
    MutexLock lock(mutex_);
    slices_[member] = values;
    const int round = round_;
    if (++arrived_ == static_cast<int>(slices_.size())) {
      for (int64_t i = 0; i < elements; ++i) {
        float sum = 0;
        for (const float* slice : slices_) sum += slice[i];
        for (float* slice : slices_) slice[i] = sum;
      }
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
  absl::Status Gather(const Slice& x, absl::Span<const int64_t> ends) override {
    return absl::UnimplementedError("passes do not gather");
  }
  absl::Status Sum(const Slice& x) override {
    ++sums;
    point_.Sum(member_, reinterpret_cast<float*>(x.buffer->host_address() + x.offset_bytes), x.elements);
    return absl::OkStatus();
  }
  int sums = 0;

 private:
  MeetingPoint& point_;
  const int member_;
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
constexpr int kMicroBatch = 2;
const BlockRange kLayers = {1, 3};
const BufferCounts kBuffers = {
    .stash = {1}, .input = 1, .output = 1, .input_gradient = 1, .output_gradient = 1};

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

std::vector<float> Read(ModelShard& shard, BufferKind kind) {
  const Slice slice = shard.BoundaryOf({kind, 0});
  std::vector<float> values(slice.elements);
  const absl::Span<std::byte> bytes(reinterpret_cast<std::byte*>(values.data()), values.size() * 4);
  if (!shard.queue().Download(*slice.buffer, {slice.offset_bytes}, bytes).ok()) values.clear();
  return values;
}

// A forward and a backward of two layers of the model, with made-up values at the boundaries.
absl::Status Pass(ModelShard& shard) {
  RETURN_IF_ERROR(shard.arena().Initialise(3));
  const int64_t elements = shard.BoundaryOf({BufferKind::kInput, 0}).elements;
  for (const BufferKind kind : {BufferKind::kInput, BufferKind::kOutputGradient}) {
    const std::vector<float> values = Values(elements, static_cast<uint64_t>(kind));
    const Slice slice = shard.BoundaryOf({kind, 0});
    RETURN_IF_ERROR(
        shard.queue().Upload({reinterpret_cast<const std::byte*>(values.data()), values.size() * 4},
                             *slice.buffer, {slice.offset_bytes}));
  }
  RETURN_IF_ERROR(shard.Forward({.input = 0, .output = 0}, Purpose::kTrain));
  return shard.Backward({.input = 0, .input_gradient = 0, .output_gradient = 0});
}

TEST_CASE("ranks that share layers, evenly or not, compute what one device does", "[property]") {
  const TrainingShape shape{
      .model = kModels[GENERATE(0, 1)], .sequence = 6, .global_batch_sequences = kMicroBatch};
  const std::vector<ModelShare> shares = GENERATE_COPY(
      values<std::vector<ModelShare>>({EvenShares(shape.model, 2),
                                       EvenShares(shape.model, 3),
                                       EvenShares(shape.model, 4),
                                       {{{0, 3}, {0, 7}, {0, 10}}, {{3, 4}, {7, 20}, {10, 11}}},
                                       {{{0, 1}, {0, 19}, {0, 1}}, {{1, 4}, {19, 20}, {1, 11}}}}));
  const int ranks = static_cast<int>(shares.size());
  CAPTURE(FamilyOf(shape.model).name, ranks, shares[0].key_value_heads.end);
  Device device = OpenReference();
  const auto whole = *ModelShard::Create(
      device,
      {.shape = shape, .chunks = {kLayers}, .micro_batch_sequences = kMicroBatch, .buffers = kBuffers});
  REQUIRE(Pass(*whole).ok());

  MeetingPoint point(ranks);
  std::vector<Device> devices;
  std::vector<std::unique_ptr<HostGroup>> groups;
  std::vector<std::unique_ptr<ModelShard>> shards;
  for (int member = 0; member < ranks; ++member) {
    devices.push_back(OpenReference());
    groups.push_back(std::make_unique<HostGroup>(point, member));
  }
  for (int member = 0; member < ranks; ++member) {
    shards.push_back(*ModelShard::Create(devices[member], {.shape = shape,
                                                           .chunks = {kLayers},
                                                           .share = shares[member],
                                                           .micro_batch_sequences = kMicroBatch,
                                                           .buffers = kBuffers}));
    shards.back()->SetGroup(groups[member].get());
    CHECK(devices[member].queue->allocated() < device.queue->allocated());
  }
  std::vector<absl::Status> statuses(ranks);
  std::vector<std::thread> threads;
  for (int member = 0; member < ranks; ++member) {
    threads.emplace_back([&, member] { statuses[member] = Pass(*shards[member]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (int member = 0; member < ranks; ++member) {
    CAPTURE(member);
    REQUIRE(statuses[member].ok());
    CHECK(groups[member]->sums == 2 * 4);  // two a layer and direction
    for (const BufferKind kind : {BufferKind::kOutput, BufferKind::kInputGradient}) {
      const std::vector<float> got = Read(*shards[member], kind), want = Read(*whole, kind);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]).margin(2e-5));
    }
  }
  for (const PlacedParameter& placed : whole->arena().layout().parameters) {
    CAPTURE(placed.spec.name);
    std::vector<float> want(placed.spec.elements), together(placed.spec.elements, std::nanf(""));
    REQUIRE(whole->arena().Read(Part::kGradient, placed.spec.name, absl::MakeSpan(want)).ok());
    for (const auto& shard : shards)
      REQUIRE(shard->arena().Read(Part::kGradient, placed.spec.name, absl::MakeSpan(together)).ok());
    for (size_t i = 0; i < want.size(); ++i) CHECK(together[i] == Approx(want[i]).margin(2e-5));
  }
}

}  // namespace
}  // namespace medley
