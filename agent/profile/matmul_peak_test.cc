#include "agent/profile/matmul_peak.h"

#include <catch2/catch.hpp>
#include <memory>

#include "kernels/emulated/emulated_ops.h"
#include "kernels/emulated/emulated_queue.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

constexpr double kFlopsPerSecond = 4e9;

Device Emulated(Bytes memory) {
  EmulationProfile profile;
  profile.kind = "Test-1";
  profile.matmul_f32_flops_per_second = kFlopsPerSecond;
  profile.memory_bytes_per_second = 1e15;
  profile.host_link_bytes_per_second = 1e15;
  auto queue = std::make_unique<EmulatedQueue>(EmulatedQueue::Options{.name = "Test-1", .limit = memory});
  Device device;
  device.ops = std::make_unique<EmulatedOps>(*queue, std::move(profile));
  device.queue = std::move(queue);
  device.emulated = true;
  return device;
}

TEST_CASE("the fastest products come to the speed that the device has, and never to more") {
  Device device = Emulated(GiB(1));
  const absl::StatusOr<double> peak = MeasureMatmulPeak(device, Precision::kF32);
  INFO(peak.status());
  REQUIRE(peak.ok());
  CHECK(*peak <= 1.01 * kFlopsPerSecond);
  CHECK(*peak > 0);  // this machine may be busy
  CHECK(device.queue->allocated().value == 0);
}

TEST_CASE("a device that is too small for any says so") {
  Device device = Emulated(KiB(256));
  CHECK(absl::IsResourceExhausted(MeasureMatmulPeak(device, Precision::kF32).status()));
}

}  // namespace
}  // namespace medley
