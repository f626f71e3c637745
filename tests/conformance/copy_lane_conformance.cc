#include <catch2/catch.hpp>

#include "runtime/device/copy_lane_program.h"
#include "runtime/device/queue_timer.h"
#include "tests/conformance/device_under_test.h"

namespace medley {
namespace {

std::vector<Device*> Devices() {
  std::vector<Device*> devices = {&ReferenceDevice()};
  if (Device* device = DeviceUnderTest()) devices.push_back(device);
  return devices;
}

LaneProgram Program(Device& device, uint64_t seed) {
  const auto add = [&device](const Slice& x, const Slice& y) {
    return device.ops->Add({x, y, y, y.elements});
  };
  return {.queue = *device.queue, .add = add, .seed = seed};
}

TEST_CASE("copy lanes and the queue keep the order that fences ask for, to the bit", "[conformance][lanes]") {
  for (Device* device : Devices()) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(device->queue->name(), seed);
      LaneProgram program = Program(*device, seed);
      program.elements = seed % 2 == 0 ? 37 : 100'003;
      const absl::Status status = RunOrderedByFences(program);
      CAPTURE(status);
      REQUIRE(status.ok());
    }
  }
}

TEST_CASE("a timer's marks are read in the order of the queue, again and again, and add up",
          "[conformance][timer]") {
  for (Device* device : Devices()) {
    CAPTURE(device->queue->name());
    DeviceQueue& queue = *device->queue;
    const int64_t elements = 200'000;
    auto x = queue.Allocate({elements * 4}), y = queue.Allocate({elements * 4});
    auto timer = queue.OpenTimer(4);
    REQUIRE((x.ok() && y.ok() && timer.ok()));
    for (int round = 0; round < 2; ++round) {
      const auto add = [&] {
        const Slice a{x->get(), 0, elements}, b{y->get(), 0, elements};
        REQUIRE(device->ops->Add({a, b, b, elements}).ok());
      };
      for (int mark = 0; mark < 4; ++mark) {
        REQUIRE((*timer)->Set(mark).ok());
        for (int i = 0; i < 1 + mark; ++i) add();
      }
      REQUIRE(queue.Wait(queue.Record()).ok());
      const auto seconds = [&](int from, int to) {
        const absl::StatusOr<double> between = (*timer)->Seconds(from, to);
        REQUIRE(between.status().ToString() == "OK");
        return *between;
      };
      CHECK(seconds(0, 0) == 0);
      CHECK(seconds(0, 1) >= 0);
      CHECK(seconds(1, 3) >= seconds(1, 2));
      CHECK(seconds(0, 3) == Approx(seconds(0, 1) + seconds(1, 2) + seconds(2, 3)).margin(2e-6));
      CHECK(seconds(3, 0) == Approx(-seconds(0, 3)).margin(1e-9));
    }
  }
}

TEST_CASE("two copy lanes copy both ways while the queue computes", "[conformance][lanes]") {
  for (Device* device : Devices()) {
    CAPTURE(device->queue->name());
    LaneProgram program = Program(*device, 11);
    program.elements = 50'001;
    program.actions = 40;
    const absl::Status status = RunAllAtOnce(program);
    CAPTURE(status);
    CHECK(status.ok());
  }
}

TEST_CASE("a lane refuses what does not fit and goes on, and its fences are its own",
          "[conformance][lanes]") {
  for (Device* device : Devices()) {
    CAPTURE(device->queue->name());
    DeviceQueue& queue = *device->queue;
    auto buffer = queue.Allocate({8});
    REQUIRE(buffer.ok());
    auto lane = queue.OpenCopyLane();
    REQUIRE(lane.ok());
    REQUIRE((*lane)->AwaitQueue(queue.Record()).ok());
    auto memory = (*lane)->AllocatePinned({9});
    REQUIRE(memory.ok());
    const absl::Span<std::byte> bytes = (*memory)->bytes();
    CHECK(bytes.size() == 9);
    CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % 64 == 0);
    CHECK(absl::IsOutOfRange((*lane)->Upload(bytes, **buffer, {0})));
    CHECK(absl::IsOutOfRange((*lane)->Upload(bytes.first(1), **buffer, {8})));
    CHECK(absl::IsOutOfRange((*lane)->Download(**buffer, {-1}, bytes.first(1))));
    CHECK(absl::IsInvalidArgument((*lane)->AllocatePinned({-1}).status()));
    CHECK(absl::IsResourceExhausted((*lane)->AllocatePinned({INT64_MAX}).status()));
    auto empty = (*lane)->AllocatePinned({0});
    REQUIRE(empty.ok());
    CHECK((*empty)->bytes().empty());
    CHECK((*lane)->Upload({}, **buffer, {8}).ok());
    std::vector<std::byte> ordinary(8, std::byte{6});
    CHECK((*lane)->Upload(ordinary, **buffer, {0}).ok());
    CHECK((*lane)->Download(**buffer, {3}, bytes.first(5)).ok());
    const Fence fence = (*lane)->Record();
    CHECK((*lane)->Wait(fence).ok());
    CHECK((*lane)->Wait(fence).ok());
    CHECK(bytes[4] == std::byte{6});
    CHECK(queue.AwaitLane(**lane, fence).ok());
    CHECK(queue.Wait(queue.Record()).ok());
  }
}

}  // namespace
}  // namespace medley
