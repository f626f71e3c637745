#include "agent/profile/layer_calibration.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "kernels/emulated/emulated_ops.h"
#include "runtime/engine/shard/model_shard.h"

namespace medley {
namespace {

using Family = MeasuredLayer::Family;

EmulationProfile Profile(std::vector<MeasuredLayer> layers) {
  EmulationProfile profile;
  profile.kind = "Test-1";
  profile.matmul_f32_flops_per_second = 10e12;
  profile.matmul_bf16_flops_per_second = 100e12;
  profile.memory_bytes_per_second = 1e12;
  profile.host_link_bytes_per_second = 1e10;
  profile.op_overhead_seconds = 2e-6;
  profile.layers = std::move(layers);
  return profile;
}

MeasuredLayer Layer(Family family, int micro_batch, double forward_seconds, double backward_seconds) {
  return {.family = family,
          .hidden = 512,
          .feed_forward = 2048,
          .heads = 8,
          .key_value_heads = family == Family::kLlama ? 2 : 8,
          .sequence = 256,
          .micro_batch = micro_batch,
          .precision = Precision::kBf16,
          .forward_seconds = forward_seconds,
          .backward_seconds = backward_seconds};
}

struct Emulated {
  explicit Emulated(EmulationProfile profile) {
    auto owned = std::make_unique<EmulatedQueue>(EmulatedQueue::Options{.name = "test", .limit = GiB(1024)});
    queue = owned.get();
    device.ops = std::make_unique<EmulatedOps>(*owned, std::move(profile));
    device.queue = std::move(owned);
    device.computes.bf16 = true;
  }
  Device device;
  EmulatedQueue* queue;
};

struct Times {
  double forward = 0, backward = 0;
};

// The times of one layer, on the queue's own clock: the queue has work for an hour, so that nothing depends
// on when it is asked.
Times TimesOf(Emulated& emulated, const MeasuredLayer& layer) {
  TrainingShape shape;
  shape.model = {.layers = 3,
                 .hidden = layer.hidden,
                 .heads = layer.heads,
                 .feed_forward = layer.feed_forward,
                 .vocabulary = 100,
                 .context = layer.sequence};
  if (layer.family == Family::kLlama) {
    shape.model.family = ModelFamily::kLlama;
    shape.model.key_value_heads = layer.key_value_heads;
  }
  shape.sequence = layer.sequence;
  shape.global_batch_sequences = layer.micro_batch;
  const Dtype activations = TypeOf(emulated.device.computes.For(layer.precision));
  auto shard = ModelShard::Create(emulated.device, {.shape = shape,
                                                    .chunks = {{2, 3}},
                                                    .micro_batch_sequences = layer.micro_batch,
                                                    .buffers = BuffersOfOne(shape.model, {2, 3}, activations),
                                                    .precision = layer.precision});
  REQUIRE(shard.status().ToString() == "OK");
  emulated.queue->Take(3600);
  const uint64_t start = emulated.queue->Record().value;
  REQUIRE((*shard)->Forward({.stash = 0, .input = 0, .output = 0}, Purpose::kTrain).ok());
  const uint64_t middle = emulated.queue->Record().value;
  REQUIRE((*shard)->Backward({.stash = 0, .input = 0, .input_gradient = 0, .output_gradient = 0}).ok());
  const uint64_t end = emulated.queue->Record().value;
  return {static_cast<double>(middle - start) * 1e-9, static_cast<double>(end - middle) * 1e-9};
}

TEST_CASE("a layer takes what was measured of it, forward and backward") {
  const Family family = GENERATE(Family::kGpt2, Family::kLlama);
  const std::vector<MeasuredLayer> layers = {Layer(family, 1, 3e-3, 5e-3), Layer(family, 3, 4e-3, 11e-3),
                                             Layer(family, 16, 2e-2, 3e-2)};
  Emulated emulated(Profile(layers));
  REQUIRE(CalibrateEmulation(emulated.device).ToString() == "OK");
  for (const MeasuredLayer& layer : layers) {
    CAPTURE(layer.micro_batch);
    const Times times = TimesOf(emulated, layer);
    // An op's time is in whole nanoseconds.
    CHECK(times.forward == Approx(layer.forward_seconds).margin(1e-7));
    CHECK(times.backward == Approx(layer.backward_seconds).margin(1e-7));
  }
}

TEST_CASE("layers of other shapes, families and precisions beside each other keep their own times") {
  MeasuredLayer f32 = Layer(Family::kGpt2, 2, 8e-3, 17e-3);
  f32.precision = Precision::kF32;
  // As many rows as two windows of 256, so that all products but attention's are equal.
  MeasuredLayer longer = Layer(Family::kGpt2, 1, 3.1e-3, 6.3e-3);
  longer.sequence = 512;
  const std::vector<MeasuredLayer> layers = {Layer(Family::kGpt2, 2, 3e-3, 6e-3),
                                             Layer(Family::kLlama, 2, 2e-3, 5e-3), f32, longer};
  Emulated emulated(Profile(layers));
  REQUIRE(CalibrateEmulation(emulated.device).ToString() == "OK");
  for (const MeasuredLayer& layer : layers) {
    CAPTURE(static_cast<int>(layer.family), static_cast<int>(layer.precision), layer.sequence);
    const Times times = TimesOf(emulated, layer);
    CHECK(times.forward == Approx(layer.forward_seconds).margin(1e-7));
    CHECK(times.backward == Approx(layer.backward_seconds).margin(1e-7));
  }
}

TEST_CASE("a size between measured ones deviates from its roofline as they do, another shape not at all") {
  const MeasuredLayer size1 = Layer(Family::kGpt2, 1, 0, 0), size2 = Layer(Family::kGpt2, 2, 0, 0),
                      size4 = Layer(Family::kGpt2, 4, 0, 0), size32 = Layer(Family::kGpt2, 32, 0, 0);
  MeasuredLayer wider = size2;
  wider.hidden = 1024;
  Emulated plain(Profile({}));
  REQUIRE(CalibrateEmulation(plain.device).ok());
  MeasuredLayer slow1 = size1, slow4 = size4;
  slow1.forward_seconds = 10 * TimesOf(plain, size1).forward;
  slow1.backward_seconds = 10 * TimesOf(plain, size1).backward;
  slow4.forward_seconds = 40 * TimesOf(plain, size4).forward;
  slow4.backward_seconds = 40 * TimesOf(plain, size4).backward;
  Emulated emulated(Profile({slow1, slow4}));
  REQUIRE(CalibrateEmulation(emulated.device).ToString() == "OK");
  CHECK(TimesOf(emulated, size2).forward == Approx(20 * TimesOf(plain, size2).forward).epsilon(1e-4));
  CHECK(TimesOf(emulated, size2).backward == Approx(20 * TimesOf(plain, size2).backward).epsilon(1e-4));
  CHECK(TimesOf(emulated, size32).forward == Approx(40 * TimesOf(plain, size32).forward).epsilon(1e-4));
  CHECK(TimesOf(emulated, wider).forward == Approx(TimesOf(plain, wider).forward).epsilon(1e-6));
}

TEST_CASE("a layer that was measured faster than its shared ops alone can be is refused") {
  Emulated emulated(Profile({Layer(Family::kGpt2, 4, 1e-9, 1)}));
  const absl::Status status = CalibrateEmulation(emulated.device);
  CHECK(absl::IsInvalidArgument(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("Test-1") && Catch::Contains("forward_ms") &&
                                                Catch::Contains("micro_batch 4 is 1e-06"));
}

}  // namespace
}  // namespace medley
