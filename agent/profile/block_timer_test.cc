#include "agent/profile/block_timer.h"

#include <catch2/catch.hpp>
#include <memory>

#include "agent/profile/layer_calibration.h"
#include "kernels/emulated/emulated_ops.h"

namespace medley {
namespace {

constexpr double kForward = 2e-3, kBackward = 3e-3;  // of a layer, of one window

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
  const absl::StatusOr<DeviceTimes> times =
      TimeBlocks(device, Shape(), Precision::kF32, {1, 2, 4}, {.enough_seconds = 0, .most_seconds = 0.05});
  REQUIRE(times.status().ToString() == "OK");
  REQUIRE(times->by_micro_batch.size() == 3);
  for (const MicroBatchTimes& t : times->by_micro_batch) {
    CAPTURE(t.micro_batch_sequences);
    CHECK_FALSE(t.extrapolated);
    CHECK(t.layer.forward_seconds >= 0.99 * t.micro_batch_sequences * kForward);
    CHECK(t.layer.backward_seconds >= 0.99 * t.micro_batch_sequences * kBackward);
    CHECK(t.layer.forward_seconds < 0.5);  // this machine may be busy
    CHECK(t.head.forward_seconds < t.layer.forward_seconds);
  }
  CHECK(times->copy_bytes_per_parameter == 0);
}

TEST_CASE(
    "a size that would take too long is not measured: its time is in proportion, or on the line before it") {
  Device device = Emulated(GiB(16));
  const auto layers = [&](double longest_seconds) {
    const absl::StatusOr<DeviceTimes> times =
        TimeBlocks(device, Shape(), Precision::kF32, {1, 2, 4, 8},
                   {.enough_seconds = 0, .most_seconds = 0, .longest_repetition_seconds = longest_seconds});
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
  const TimingLimits quick = {.enough_seconds = 0, .most_seconds = 0};
  const absl::StatusOr<DeviceTimes> times = TimeBlocks(small, Shape(), Precision::kF32, {1, 64}, quick);
  REQUIRE(times.status().ToString() == "OK");
  CHECK_FALSE(times->by_micro_batch[0].extrapolated);
  CHECK(times->by_micro_batch[1].extrapolated);
  CHECK(times->by_micro_batch[1].layer.forward_seconds ==
        Approx(64 * times->by_micro_batch[0].layer.forward_seconds));
  Device tiny = Emulated(KiB(64));
  CHECK(absl::IsResourceExhausted(TimeBlocks(tiny, Shape(), Precision::kF32, {1, 64}, quick).status()));
}

}  // namespace
}  // namespace medley
