#include "tests/conformance/device_under_test.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "kernels/backends.h"
#include "runtime/device/device_name.h"
#include "tests/skipped.h"

namespace medley {
namespace {

// Whether this machine has no such device, or one that the kernels do not run on.
bool IsMissing(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsUnimplemented(status);
}

constexpr Bytes kMemoryLimit = MiB(512);

absl::StatusOr<Device> Open(const std::string& name) {
  absl::StatusOr<DeviceDescription> description = ParseDeviceName(name);
  if (!description.ok()) return description.status();
  description->memory_limit = kMemoryLimit;
  const int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (static_cast<int64_t>(description->cores.size()) > cores) {
    return absl::UnavailableError("this machine has " + std::to_string(cores) + " cores");
  }
  for (const Backend& backend : AllBackends()) {
    if (backend.name != description->backend) continue;
    absl::StatusOr<Device> device = backend.open(*description);
    // What `objection` promises without side effects, `open` must keep.
    CHECK(device.ok() == backend.objection(*description).ok());
    return device;
  }
  return absl::NotFoundError("no backend is named " + description->backend);
}

}  // namespace

std::string DeviceUnderTestName() {
  // Another of the same backend, to tell its kernels apart: "cuda:0:no-cudnn".
  const char* other = std::getenv("DEVICE_UNDER_TEST");
  return other != nullptr ? other : MEDLEY_DEVICE_UNDER_TEST;
}

Device* DeviceUnderTest() {
  static absl::StatusOr<Device>& device = *[] {
    auto* opened = new absl::StatusOr<Device>(Open(DeviceUnderTestName()));
    if (IsMissing(opened->status())) {
      Skipped(DeviceUnderTestName(), std::string(opened->status().message()));
    }
    return opened;
  }();
  if (device.ok()) return &*device;
  if (!IsMissing(device.status())) FAIL(device.status());
  return nullptr;
}

Device& ReferenceDevice() {
  static Device& device = *[] {
    auto opened = Open("reference/1");
    return new Device(std::move(opened).value());
  }();
  return device;
}

}  // namespace medley
