#include "tests/conformance/device_under_test.h"

#include <catch2/catch.hpp>
#include <iostream>

#include "kernels/backends.h"

namespace medley {
namespace {

constexpr Bytes kMemoryLimit = MiB(512);

absl::StatusOr<Device> Open(const std::string& name) {
  const size_t colon = name.find(':');
  DeviceDescription description{.name = "device-under-test", .backend = name.substr(0, colon), .cores = {0},
                                .memory_limit = kMemoryLimit};
  if (colon != std::string::npos) description.variant = name.substr(colon + 1);
  for (const Backend& backend : AllBackends()) {
    if (backend.name != description.backend) continue;
    absl::StatusOr<Device> device = backend.open(description);
    // What `objection` promises without side effects, `open` must keep.
    CHECK(device.ok() == backend.objection(description).empty());
    return device;
  }
  return absl::NotFoundError("no backend is named " + description.backend);
}

}  // namespace

std::string DeviceUnderTestName() { return MEDLEY_DEVICE_UNDER_TEST; }

Device* DeviceUnderTest() {
  static absl::StatusOr<Device>& device = *[] {
    auto* opened = new absl::StatusOr<Device>(Open(DeviceUnderTestName()));
    if (absl::IsUnavailable(opened->status())) {
      std::cout << "notice: " << DeviceUnderTestName() << " is not tested: " << opened->status().message() << std::endl;
    }
    return opened;
  }();
  if (device.ok()) return &*device;
  if (!absl::IsUnavailable(device.status())) FAIL(device.status());
  return nullptr;
}

Device& ReferenceDevice() {
  static Device& device = *[] {
    auto opened = Open("reference");
    return new Device(std::move(opened).value());
  }();
  return device;
}

}  // namespace medley
