#pragma once
#include <catch2/catch.hpp>
#include <memory>
#include <utility>

#include "agent/profile/layer_calibration.h"
#include "kernels/emulated/emulated_ops.h"
#include "kernels/emulated/emulated_queue.h"
#include "runtime/ir/model/model_config.h"

// For tests: a device of which is known how long a layer takes.
namespace medley {

inline constexpr double kForward = 2e-3, kBackward = 3e-3;  // of a layer, of one window

inline TrainingShape Shape() {
  TrainingShape shape;
  shape.model = {
      .layers = 12, .hidden = 64, .heads = 4, .feed_forward = 256, .vocabulary = 100, .context = 32};
  shape.sequence = 32;
  shape.global_batch_sequences = 64;
  return shape;
}

// A layer takes its time in proportion to its windows, all else next to nothing.
inline Device Emulated(Bytes memory) {
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

}  // namespace medley
