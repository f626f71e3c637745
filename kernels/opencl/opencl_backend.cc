#include "kernels/opencl/opencl_backend.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/fallback/reference_fallback_ops.h"
#include "kernels/host/core_binding.h"
#include "kernels/opencl/clblast_ops.h"
#include "kernels/opencl/opencl_device.h"
#include "kernels/opencl/opencl_launcher.h"
#include "kernels/opencl/opencl_queue.h"
#include "kernels/portable/portable_ops.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/candidate_ops.h"
#include "runtime/device/converting_ops.h"

namespace medley {
namespace {

// The candidates of one device, and the launcher that they share.
class OpenClOps final : public CandidateOps {
 public:
  OpenClOps(OpenClQueue& queue, std::unique_ptr<OpenClLauncher> launcher) : launcher_(std::move(launcher)) {
    if (const auto clblast = LoadClblast(); clblast.ok()) {
      Append("clblast", std::make_unique<ClblastOps>(**clblast, queue, *launcher_));
    }
    Append("portable", std::make_unique<PortableOps>(queue, *launcher_, *this));
    Append("reference", std::make_unique<ReferenceFallbackOps>(queue));
  }

 private:
  std::unique_ptr<OpenClLauncher> launcher_;
};

absl::StatusOr<OpenClDevice> Find(const DeviceDescription& description) {
  ASSIGN_OR_RETURN(const OpenClLibrary* opencl, LoadOpenCl());
  const std::vector<OpenClDevice> devices = ListOpenClDevices(*opencl);
  if (devices.empty()) {
    return absl::UnavailableError(
        "no OpenCL device on this machine: the OpenCL library finds no driver with one");
  }
  ASSIGN_OR_RETURN(const OpenClDevice* chosen, ChooseOpenClDevice(devices, description.variant));
  if (chosen->kind == OpenClKind::kCpu) {
    RETURN_IF_ERROR(CheckCores(description.cores));
  }
  RETURN_IF_ERROR(CheckOpenClDevice(*chosen));
  return *chosen;
}

absl::Status Objection(const DeviceDescription& description) { return Find(description).status(); }

// PoCL, the OpenCL of processors, reads how many threads to start when it is first asked for devices; the
// name of the variable is another one from version 5 on.
void LimitThreadsOfDrivers(size_t cores) {
  for (const char* variable : {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT"}) {
    setenv(variable, absl::StrCat(cores).c_str(), 1);
  }
}

absl::StatusOr<Device> Open(const DeviceDescription& description) {
  if (!description.cores.empty()) LimitThreadsOfDrivers(description.cores.size());
  ASSIGN_OR_RETURN(const OpenClDevice found, Find(description));
  if (found.kind == OpenClKind::kCpu) RETURN_IF_ERROR(BindProcess(description.cores));
  ASSIGN_OR_RETURN(const OpenClLibrary* opencl, LoadOpenCl());
  ASSIGN_OR_RETURN(std::unique_ptr<OpenClQueue> queue,
                   OpenClQueue::Create(*opencl, found, description.memory_limit));
  ASSIGN_OR_RETURN(std::unique_ptr<OpenClLauncher> launcher,
                   OpenClLauncher::Create(*queue, ProgramCache(ProgramCache::DefaultFolder())));
  auto ops = std::make_unique<OpenClOps>(*queue, std::move(launcher));
  Device device;
  device.candidates = ops.get();
  device.ops = std::make_unique<ConvertingOps>(*queue, std::move(ops));
  device.queue = std::move(queue);
  device.provenance = {.hardware = found.name,
                       .driver = absl::StrCat(found.platform_name, " ", found.driver_version),
                       .libraries = {found.device_version}};
  return device;
}

// What an agent offers of a device's memory where nothing is said; drivers and libraries take some.
Bytes Offered(const OpenClDevice& device) { return {device.memory.value / 10 * 8}; }

std::vector<DeviceDescription> FindDevices() {
  constexpr uint32_t kNvidia = 0x10de;  // the cuda backend's
  std::vector<DeviceDescription> descriptions;
  const auto opencl = LoadOpenCl();
  if (!opencl.ok()) return descriptions;
  for (const OpenClDevice& device : ListOpenClDevices(**opencl)) {
    if (device.kind != OpenClKind::kGpu || device.vendor_id == kNvidia || !CheckOpenClDevice(device).ok()) {
      continue;
    }
    descriptions.push_back({.name = absl::StrCat("opencl", descriptions.size()),
                            .backend = "opencl",
                            .variant = absl::StrCat(device.platform_index, ":", device.device_index),
                            .memory_limit = Offered(device)});
  }
  return descriptions;
}

DeviceNature Nature(const DeviceDescription& description) {
  const absl::StatusOr<OpenClDevice> device = Find(description);
  if (!device.ok()) return {};
  const bool on_cores = device->kind == OpenClKind::kCpu;
  const std::string cores = on_cores ? absl::StrCat(" x", description.cores.size()) : "";
  return {.kind = absl::StrCat("opencl ", device->title(), cores),
          .memory = Offered(*device),
          .on_cores = on_cores,
          .largest_buffer = device->largest_buffer,
          .total_memory = device->memory};
}

}  // namespace

Backend OpenClBackend() {
  return {.name = "opencl", .open = Open, .objection = Objection, .find = FindDevices, .nature = Nature};
}

}  // namespace medley
