#include "kernels/reference/reference_backend.h"

#include "kernels/host/core_binding.h"
#include "kernels/host/host_queue.h"
#include "kernels/host/processor_name.h"
#include "kernels/reference/reference_ops.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/converting_ops.h"

namespace medley {
namespace {

absl::Status Objection(const DeviceDescription& description) {
  if (!description.variant.empty()) {
    return absl::InvalidArgumentError("variant \"" + description.variant +
                                      "\" is unknown; the reference backend has none, leave it empty");
  }
  return CheckCores(description.cores);
}

absl::StatusOr<Device> Open(const DeviceDescription& description) {
  RETURN_IF_ERROR(Objection(description));
  RETURN_IF_ERROR(BindThread(description.cores));
  Device device;
  auto queue = std::make_unique<HostQueue>("reference", description.memory_limit);
  device.ops = std::make_unique<ConvertingOps>(*queue, std::make_unique<ReferenceOps>(*queue));
  device.queue = std::move(queue);
  device.computes = {.bf16 = true, .f16 = true};
  device.provenance.hardware = ProcessorName();
  return device;
}

}  // namespace

Backend ReferenceBackend() { return {.name = "reference", .open = Open, .objection = Objection}; }

}  // namespace medley
