#include "agent/profile/block_timer.h"

#include <catch2/catch.hpp>

#include "agent/profile/device_of_known_times.h"
#include "runtime/base/clock.h"
#include "runtime/ir/model/model_share.h"

namespace medley {
namespace {

const TimingLimits kQuick = {.fewest_rounds = 2, .most_rounds = 3, .turn_seconds = 0};

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
