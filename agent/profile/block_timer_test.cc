#include "agent/profile/block_timer.h"

#include <catch2/catch.hpp>
#include <memory>

#include "agent/profile/layer_calibration.h"
#include "kernels/emulated/emulated_ops.h"
#include "runtime/base/clock.h"
#include "runtime/ir/model/model_share.h"

namespace medley {
namespace {

constexpr double kForward = 2e-3, kBackward = 3e-3;  // of a layer, of one window
const TimingLimits kQuick = {.fewest_rounds = 2, .most_rounds = 3, .turn_seconds = 0};

TrainingShape Shape() {
  TrainingShape shape;
  shape.model = {
      .layers = 12, .hidden = 64, .heads = 4, .feed_forward = 256, .vocabulary = 100, .context = 32};
  shape.sequence = 32;
  shape.global_batch_sequences = 64;
  return shape;
}

// A layer takes its time in proportion to its windows, all else next to nothing.
Device Emulated(Bytes memory) {
  EmulationProfile profile;
  profile.kind = "Test-1";
  profile.matmul_f32_flops_per_second = 1e15;
  profile.memory_bytes_per_second = 1e15;
  profile.host_link_bytes_per_second = 1e15;
  for (const int size : {1, 2, 4, 8}) {
    profile.layers.push_back({.hidden = 64,
                              .feed_forward = 256,
                              .heads = 4,
                              .key_value_heads = 4,
                              .sequence = 32,
                              .micro_batch = size,
                              .forward_seconds = size * kForward,
                              .backward_seconds = size * kBackward});
  }
  auto queue = std::make_unique<EmulatedQueue>(EmulatedQueue::Options{.name = "Test-1", .limit = memory});
  Device device;
  device.ops = std::make_unique<EmulatedOps>(*queue, std::move(profile));
  device.queue = std::move(queue);
  device.emulated = true;
  REQUIRE(CalibrateEmulation(device).ok());
  return device;
}

TEST_CASE("a layer's times are those that the device takes") {
  Device device = Emulated(GiB(16));
  const absl::StatusOr<DeviceTimes> times = TimeBlocks(device, Shape(), Precision::kF32, {1, 2, 4}, kQuick);
  REQUIRE(times.status().ToString() == "OK");
  REQUIRE(times->by_micro_batch.size() == 3);
  for (const MicroBatchTimes& t : times->by_micro_batch) {
    CAPTURE(t.micro_batch_sequences);
    CHECK_FALSE(t.extrapolated);
    CHECK(t.layer.forward_seconds >= 0.99 * t.micro_batch_sequences * kForward);
    CHECK(t.layer.backward_seconds >= 0.99 * t.micro_batch_sequences * kBackward);
    // More than the products of the weights' gradients have of the flops, less than all.
    CHECK(t.layer.weight_gradient_seconds > 0.2 * t.layer.backward_seconds);
    CHECK(t.layer.weight_gradient_seconds < 0.8 * t.layer.backward_seconds);
    CHECK(t.layer.split_seconds >= 0);
    CHECK(t.layer.split_seconds <= t.layer.weight_gradient_seconds);
    // Not the last product, and not attention: about what their FLOPs are.
    const double layer = t.layer.recompute_seconds / t.layer.forward_seconds,
                 but_attention = t.layer.recompute_but_attention_seconds / t.layer.forward_seconds;
    CHECK(layer > 0.3);
    CHECK(layer < 1);
    CHECK(but_attention > 0.2);
    CHECK(but_attention <= layer);
    CHECK(t.layer.forward_seconds < 0.5);  // this machine may be busy
    CHECK(t.head.forward_seconds < t.layer.forward_seconds);
    CHECK(t.layer.spread >= 0);
  }
  CHECK(times->copy_bytes_per_parameter == 0);
}

TEST_CASE(
    "a size that would take too long is not measured: its time is in proportion, or on the line before it") {
  Device device = Emulated(GiB(16));
  const auto layers = [&](double longest_seconds) {
    const absl::StatusOr<DeviceTimes> times =
        TimeBlocks(device, Shape(), Precision::kF32, {1, 2, 4, 8},
                   {.most_rounds = 1, .turn_seconds = 0, .longest_repetition_seconds = longest_seconds});
    REQUIRE(times.ok());
    return times->by_micro_batch;
  };
  const std::vector<MicroBatchTimes> one = layers(1e-9);
  CHECK_FALSE(one[0].extrapolated);
  for (int i = 1; i < 4; ++i) {
    CHECK(one[i].extrapolated);
    CHECK(one[i].layer.backward_seconds == Approx(one[0].layer.backward_seconds * (1 << i)));
  }
  // Two layers of two windows take 20 ms at least, of eight 80 ms.
  const std::vector<MicroBatchTimes> some = layers(0.06);
  REQUIRE(some[3].extrapolated);
  if (!some[2].extrapolated) {
    CHECK(some[3].layer.forward_seconds ==
          Approx(3 * some[2].layer.forward_seconds - 2 * some[1].layer.forward_seconds));
  }
}

TEST_CASE("a size that does not fit is not measured, and a device on which none fits says so") {
  Device small = Emulated(MiB(4));
  const absl::StatusOr<DeviceTimes> times = TimeBlocks(small, Shape(), Precision::kF32, {1, 64}, kQuick);
  REQUIRE(times.status().ToString() == "OK");
  CHECK_FALSE(times->by_micro_batch[0].extrapolated);
  CHECK(times->by_micro_batch[1].extrapolated);
  CHECK(times->by_micro_batch[1].layer.forward_seconds ==
        Approx(64 * times->by_micro_batch[0].layer.forward_seconds));
  Device tiny = Emulated(KiB(64));
  CHECK(absl::IsResourceExhausted(TimeBlocks(tiny, Shape(), Precision::kF32, {1, 64}, kQuick).status()));
}

// Counts what is timed: the limits on rounds are kept whatever the device does.
TEST_CASE("rounds end when times agree, and at the latest when they may not be more") {
  Device device = Emulated(GiB(16));
  const auto seconds = [&](const TimingLimits& limits) {
    const absl::Time start = Now();
    REQUIRE(TimeBlocks(device, Shape(), Precision::kF32, {2}, limits).ok());
    return absl::ToDoubleSeconds(Now() - start);
  };
  // A round takes two layers of two windows, 20 ms, at least.
  CHECK(seconds({.enough_spread = -1, .fewest_rounds = 1, .most_rounds = 10, .enough_seconds = 0}) >=
        10 * 0.02);
  CHECK(seconds({.enough_spread = 1e9, .fewest_rounds = 3, .most_rounds = 1'000'000, .enough_seconds = 0}) >=
        3 * 0.02);
  CHECK(seconds({.enough_spread = -1, .fewest_rounds = 1, .most_rounds = 1'000'000, .most_seconds = 0.2}) >=
        0.2);
}

TEST_CASE("a layer beside others is timed in the middle of the time, at least once") {
  Device device = Emulated(GiB(16));
  for (const double seconds : {0.0, 0.2}) {
    const auto times = TimeLayerInTurns(device, Shape(), Precision::kF32, 2, seconds, {});
    REQUIRE(times.ok());
    CHECK(times->layer.forward_seconds >= 0.99 * 2 * kForward);
    CHECK(times->layer.backward_seconds >= 0.99 * 2 * kBackward);
    CHECK(times->pass_ratios.empty());
  }
  Device tiny = Emulated(KiB(64));
  CHECK(absl::IsResourceExhausted(TimeLayerInTurns(tiny, Shape(), Precision::kF32, 2, 0, {}).status()));
}

TEST_CASE("in turns a layer's time is that of its own turns, and each round says what company costs") {
  Device device = Emulated(GiB(16));
  // A repetition takes 20 ms or, on a busy machine, more.
  const auto times = TimeLayerInTurns(device, Shape(), Precision::kF32, 2, 3, {0.1, 2, 1});
  REQUIRE(times.ok());
  CHECK(times->layer.forward_seconds >= 0.99 * 2 * kForward);
  CHECK(times->pass_ratios.size() <= 7);
  for (const double ratio : times->pass_ratios) CHECK(ratio > 0);
  // No repetition ends within its turn: one counts all the same, and nothing is said of company.
  const auto short_turns = TimeLayerInTurns(device, Shape(), Precision::kF32, 2, 0.1, {0.001, 2, 1});
  REQUIRE(short_turns.ok());
  CHECK(short_turns->layer.forward_seconds >= 0.99 * 2 * kForward);
  CHECK(short_turns->pass_ratios.empty());
}

// Two layers of 32 windows take most of the memory, so shards give way to each other.
TEST_CASE("sizes that fit only one after another are all measured") {
  Device device = Emulated(MiB(48));
  const absl::StatusOr<DeviceTimes> times = TimeBlocks(device, Shape(), Precision::kF32, {8, 16, 32}, kQuick);
  REQUIRE(times.status().ToString() == "OK");
  for (const MicroBatchTimes& t : times->by_micro_batch) CHECK_FALSE(t.extrapolated);
  CHECK(device.queue->peak_allocated() > MiB(24));
}

TEST_CASE(
    "a rank's share of the width is timed as a model of its own sizes, and fits where the whole does not") {
  TrainingShape part = Shape();
  part.model = LocalModel(Shape().model, EvenShares(Shape().model, 4)[3]);
  // A quarter of the heads and columns, as wide as ever between the layers.
  CHECK(part.model.heads == 1);
  CHECK(part.model.hidden == 64);
  const auto fits = [](Bytes memory, const TrainingShape& shape) {
    Device device = Emulated(memory);
    return TimeBlocks(device, shape, Precision::kF32, {1}, kQuick).status();
  };
  int64_t kib = 64;
  while (!fits(KiB(kib), part).ok()) kib += 64;
  CHECK(absl::IsResourceExhausted(fits(KiB(kib), Shape())));
}

}  // namespace
}  // namespace medley
