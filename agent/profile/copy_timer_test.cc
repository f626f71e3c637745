#include "agent/profile/copy_timer.h"

#include <catch2/catch.hpp>

#include "kernels/emulated/emulated_ops.h"
#include "kernels/emulated/emulated_queue.h"
#include "kernels/reference/reference_backend.h"

namespace medley {
namespace {

Device Emulated(Bytes limit) {
  return {.queue = std::make_unique<EmulatedQueue>(EmulatedQueue::Options{
              .name = "emulated", .limit = limit, .link_bytes_per_second = 1e9, .copy_overhead_seconds = 0}),
          .emulated = true};
}

TEST_CASE("copies are found to be no faster than the device's link, and give back what they took") {
  Device device = Emulated(GiB(1));
  const auto speeds = TimeCopies(device, MiB(8));
  REQUIRE(speeds.ok());
  for (const double speed : {speeds->fetch_bytes_per_second, speeds->store_bytes_per_second}) {
    CHECK(speed > 0);
    CHECK(speed <= 1.001e9);
  }
  CHECK(device.queue->allocated() == Bytes{0});
}

TEST_CASE("what the host reaches is told from memory of the device's own") {
  Device own = Emulated(GiB(1));
  CHECK_FALSE(TimeCopies(own, MiB(1))->host_reaches);
  auto of_host =
      ReferenceBackend().open({.name = "test", .backend = "reference", .cores = {0}, .memory_limit = GiB(1)});
  REQUIRE(of_host.ok());
  CHECK(TimeCopies(*of_host, MiB(1))->host_reaches);
}

TEST_CASE("copies fit what the device has left") {
  Device device = Emulated(KiB(300));
  REQUIRE(TimeCopies(device, MiB(8)).ok());
  CHECK(device.queue->peak_allocated() <= KiB(300));
  Device full = Emulated(KiB(32));
  CHECK(absl::IsResourceExhausted(TimeCopies(full, MiB(8)).status()));
}

}  // namespace
}  // namespace medley
