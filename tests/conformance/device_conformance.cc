#include <catch2/catch.hpp>
#include <cstring>

#include "tests/conformance/arena.h"
#include "tests/conformance/device_under_test.h"

namespace medley {
namespace {

// Both are held to the contract; the reference is there on every machine.
std::vector<Device*> Devices() {
  std::vector<Device*> devices = {&ReferenceDevice()};
  if (Device* device = DeviceUnderTest()) devices.push_back(device);
  return devices;
}

TEST_CASE("a slice past the end of its buffer is OutOfRange, writes nothing and leaves the queue whole",
          "[conformance][device]") {
  for (Device* device : Devices()) {
    CAPTURE(device->queue->name());
    Arena arena(*device);
    const Slice ten = arena.Input(Values(10, 2.0f)), out = arena.Input(Values(10, 7.0f));
    Slice beyond = ten;
    beyond.elements = 100;  // the guard has 18 floats
    CHECK(absl::IsOutOfRange(arena.ops().Add({beyond, ten, out, 10})));
    Slice late = out;
    late.offset_bytes = out.buffer->size().value - 4;
    CHECK(absl::IsOutOfRange(arena.ops().Add({ten, ten, late, 10})));
    CHECK(absl::IsOutOfRange(arena.ops().Fill({ten.Sub(0, 9), 10, 1.0f})));
    Slice before = out;
    before.offset_bytes = -4;
    CHECK(absl::IsInvalidArgument(arena.ops().Fill({before, 10, 1.0f})));
    CHECK(absl::IsInvalidArgument(arena.ops().Fill({out, -1, 1.0f})));
    CHECK(absl::IsInvalidArgument(arena.ops().Fill({Slice{}, 1, 1.0f})));
    const absl::Status matmul = arena.ops().Matmul({.a = ten, .b = ten, .c = out, .m = 3, .n = 3, .k = 4});
    CHECK(absl::IsOutOfRange(matmul));
    CHECK(matmul.message().find("Matmul: a has 10 elements, the shape needs 12") != absl::string_view::npos);
    CHECK(arena.Read(out) == Values(10, 7.0f));
    arena.Check();
  }
}

TEST_CASE("a device gives zeroed memory up to its limit and copies to and fro", "[conformance][device]") {
  for (Device* device : Devices()) {
    DeviceQueue& queue = *device->queue;
    CAPTURE(queue.name());
    const Bytes before = queue.allocated();
    auto buffer = queue.Allocate({103});
    REQUIRE(buffer.ok());
    CHECK(queue.allocated() == before + Bytes{103});
    std::vector<std::byte> back(103, std::byte{9});
    REQUIRE(queue.Download(**buffer, {0}, absl::MakeSpan(back)).ok());
    REQUIRE(queue.Wait(queue.Record()).ok());
    CHECK(back == std::vector<std::byte>(103));
    {
      const std::vector<std::byte> from(5, std::byte{4});  // may be freed on return
      REQUIRE(queue.Upload(from, **buffer, {98}).ok());
    }
    CHECK(absl::IsOutOfRange(queue.Upload(std::vector<std::byte>(5), **buffer, {99})));
    REQUIRE(queue.Download(**buffer, {97}, absl::MakeSpan(back).first(6)).ok());
    REQUIRE(queue.Wait(queue.Record()).ok());
    CHECK(back[0] == std::byte{0});
    CHECK(back[5] == std::byte{4});
    CHECK(absl::IsResourceExhausted(queue.Allocate(queue.limit()).status()));
    buffer->reset();
    CHECK(queue.allocated() == before);
    CHECK(queue.peak_allocated() >= before + Bytes{103});
  }
}

TEST_CASE("what the ops hold is counted by the queue, and stays bounded for a head of any height",
          "[conformance][device]") {
  OnDeviceUnderTest([](Arena& arena) {
    // All logits at once would be 229 MiB.
    const int64_t vocabulary = 40000, rows = 1500;
    arena.Run(HeadLossArgs{.x = arena.Input(Values(rows)),
                           .weight = arena.Input(Values(vocabulary)),
                           .targets = arena.Input(std::vector<int32_t>(rows)),
                           .loss_sum = arena.Scalar(0),
                           .rows = rows,
                           .columns = 1,
                           .vocabulary = vocabulary});
    const OpHoldings held = arena.ops().held();
    CHECK(held.scratch <= MiB(128));
    CHECK(held.scratch + held.copies <= arena.queue().allocated());
  });
}

}  // namespace
}  // namespace medley
