#include "kernels/opencl/opencl_backend.h"

#include <dirent.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "kernels/opencl/opencl_device.h"
#include "kernels/opencl/opencl_library.h"
#include "runtime/base/allowed_cores.h"
#include "runtime/device/candidate_ops.h"
#include "tests/skipped.h"

namespace medley {
namespace {

DeviceDescription Described(const std::string& variant, std::vector<int> cores) {
  return {.name = "opencl0",
          .backend = "opencl",
          .variant = variant,
          .cores = std::move(cores),
          .memory_limit = MiB(64)};
}

// The number of threads of this process, each of which may run on core 0 alone.
int ThreadsOnCoreZero() {
  DIR* tasks = opendir("/proc/self/task");
  int threads = 0;
  while (const dirent* entry = readdir(tasks)) {
    const pid_t thread = std::atoi(entry->d_name);
    std::vector<int> cores;
    if (thread == 0 || GetAllowedCores(thread, cores) != 0) continue;
    CHECK(cores == std::vector<int>{0});
    ++threads;
  }
  closedir(tasks);
  return threads;
}

// One case, because a process has its threads for good.
TEST_CASE(
    "an OpenCL device opens on its cores, computes, and says what it is; others are refused with the cause") {
  const Backend backend = OpenClBackend();
  absl::StatusOr<Device> device = backend.open(Described("", {0}));
  CHECK(backend.objection(Described("", {0})) == device.status());
  if (absl::IsUnavailable(device.status())) {
    CHECK(!device.status().message().empty());
    CHECK(backend.find().empty());
    CHECK(backend.nature(Described("", {0})).kind.empty());
    Skipped("an OpenCL device", std::string(device.status().message()));
    return;
  }
  REQUIRE(device.ok());
  CHECK(device->queue->name() ==
        "opencl " + device->provenance.hardware + " (" + device->provenance.driver + ")");
  CHECK(device->computes == ComputedPrecisions{});
  CHECK(device->queue->limit() == MiB(64));

  const auto buffer = device->queue->Allocate({12});
  REQUIRE(buffer.ok());
  const Slice x{buffer->get(), 0, 3};
  REQUIRE(device->ops->Fill({x, 3, 2.0f}).ok());
  REQUIRE(device->ops->Add({x.Sub(0, 1), x.Sub(1, 1), x.Sub(2, 1), 1}).ok());
  float values[3] = {};
  REQUIRE(
      device->queue->Download(**buffer, {0}, absl::MakeSpan(reinterpret_cast<std::byte*>(values), 12)).ok());
  REQUIRE(device->queue->Wait(device->queue->Record()).ok());
  CHECK(values[0] == 2.0f);
  CHECK(values[2] == 4.0f);
  CHECK(device->candidates->candidates().back().name == "reference");

  const bool is_processor = !backend.objection(Described("", {})).ok();
  if (is_processor) {
    CHECK(ThreadsOnCoreZero() <= 4);  // this one, the driver's, and what it keeps beside them
    const absl::Status none = backend.objection(Described("", {99999}));
    CHECK(absl::IsInvalidArgument(none));
    CHECK_THAT(std::string(none.message()), Catch::Contains("99999"));
    CHECK(backend.open(Described("", {99999})).status() == none);
    for (const DeviceDescription& found : backend.find()) CHECK(found.variant != "0:0");
    if (sysconf(_SC_NPROCESSORS_CONF) > 1)
      CHECK(backend.nature(Described("", {0})).kind != backend.nature(Described("", {0, 1})).kind);
  }
  const DeviceNature nature = backend.nature(Described("", {0}));
  CHECK_THAT(nature.kind, Catch::StartsWith(device->queue->name()));
  CHECK(nature.computes == ComputedPrecisions{});
  CHECK(nature.memory > MiB(1));
  const std::vector<OpenClDevice> devices = ListOpenClDevices(**LoadOpenCl());
  CHECK(nature.largest_buffer == (*ChooseOpenClDevice(devices, ""))->largest_buffer);
  CHECK(nature.largest_buffer > MiB(1));
  CHECK(backend.nature(Described("abacus", {0})).kind.empty());
  const absl::Status unknown = backend.open(Described("abacus", {0})).status();
  CHECK(absl::IsInvalidArgument(unknown));
  CHECK_THAT(std::string(unknown.message()),
             Catch::Contains("abacus") && Catch::Contains(device->provenance.hardware));
  CHECK(backend.objection(Described("abacus", {0})) == unknown);
}

}  // namespace
}  // namespace medley
