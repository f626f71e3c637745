#include "kernels/emulated/emulated_backend.h"

#include <catch2/catch.hpp>
#include <string>

#include "kernels/emulated/emulated_ops.h"
#include "kernels/emulated/test_profile.h"

namespace medley {
namespace {

DeviceDescription Description(const TestProfile& profile) {
  return {.name = "gpu0",
          .backend = "emulated",
          .variant = "",
          .cores = {},
          .memory_limit = GiB(64),
          .profile = profile.path()};
}

TEST_CASE("a device is what its profile says") {
  const TestProfile file;
  absl::StatusOr<Device> device = EmulatedBackend().open(Description(file));
  REQUIRE(device.status().ToString() == "OK");
  CHECK(device->queue->name() == "emulated Test-1");
  CHECK(device->queue->limit() == GiB(64));
  CHECK(device->computes == ComputedPrecisions{});
  CHECK(device->emulated);
  CHECK(device->provenance.hardware == "emulated Test-1");
  CHECK(device->provenance.libraries.size() == 1);
  CHECK(EmulatedBackend().objection(Description(file)).ok());
  CHECK(EmulatedBackend()
            .open(Description(TestProfile("matmul_bf16_flops_per_second: 1e13\n")))
            ->computes.bf16);
}

TEST_CASE("an op takes its roofline's time, times its factor") {
  const TestProfile file;
  absl::StatusOr<Device> device = EmulatedBackend().open(Description(file));
  REQUIRE(device.ok());
  auto& ops = dynamic_cast<EmulatedOps&>(*device->ops);
  auto buffer = device->queue->Allocate(MiB(4));
  REQUIRE(buffer.ok());
  const Slice all{buffer->get(), 0, 1 << 20};
  const MatmulArgs matmul{.a = all, .b = all, .c = all, .m = 512, .n = 512, .k = 512};
  const double expected = 1e-5 + 2.0 * 512 * 512 * 512 / 1e12;
  const auto nanoseconds = [&] {
    const uint64_t start = device->queue->Record().value;
    REQUIRE(ops.Matmul(matmul).ok());
    return static_cast<double>(device->queue->Record().value - start);
  };
  REQUIRE(ops.Fill({.x = all, .elements = 1 << 20}).ok());
  ops.SetFactor(CostOf(FillArgs{.elements = 1 << 20}), 1e8);
  REQUIRE(ops.Fill({.x = all, .elements = 1 << 20}).ok());  // for hours: what follows is queued behind it
  CHECK(nanoseconds() == Approx(expected * 1e9).margin(1));
  ops.SetFactor(CostOf(matmul), 3);
  CHECK(nanoseconds() == Approx(3 * expected * 1e9).margin(1));
}

TEST_CASE("arguments are checked as on every backend, and what is refused takes no time") {
  const TestProfile file;
  absl::StatusOr<Device> device = EmulatedBackend().open(Description(file));
  REQUIRE(device.ok());
  auto buffer = device->queue->Allocate({4});
  REQUIRE(buffer.ok());
  CHECK(absl::IsOutOfRange(device->ops->Fill({.x = {buffer->get(), 0, 1}, .elements = 2})));
  CHECK(absl::IsInvalidArgument(device->ops->Fill({.x = {buffer->get(), 0, 1}, .elements = -1})));
  CHECK(device->queue->Record().value == 0);
}

TEST_CASE("a description that contradicts the profile is refused with the field") {
  const TestProfile file;
  struct Case {
    void (*change)(DeviceDescription&);
    std::string message;
  };
  const Case c = GENERATE(values<Case>({
      {[](DeviceDescription& d) { d.profile = ""; }, "profile: is empty"},
      {[](DeviceDescription& d) { d.profile = "/nowhere/x.yaml"; }, "/nowhere/x.yaml"},
      {[](DeviceDescription& d) { d.cores = {0}; }, "cores: an emulated device has none"},
      {[](DeviceDescription& d) { d.variant = "Test-2"; },
       "variant: \"Test-2\" is not the profile's kind, \"Test-1\""},
      {[](DeviceDescription& d) { d.memory_limit = GiB(65); },
       "memory_bytes: 65.0 GiB is more than the profile's 64.0 GiB"},
  }));
  DeviceDescription description = Description(file);
  c.change(description);
  const absl::Status status = EmulatedBackend().open(description).status();
  CHECK_THAT(std::string(status.message()), Catch::Contains(c.message));
  CHECK(EmulatedBackend().objection(description) == status);
}

}  // namespace
}  // namespace medley
