#include "absl/strings/str_cat.h"
#include "agent/profile/layer_calibration.h"
#include "agent/worker/task.h"
#include "kernels/backends.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::StatusOr<Device> OpenDevice(const DeviceDescription& description) {
  for (const Backend& backend : AllBackends()) {
    if (backend.name != description.backend) continue;
    ASSIGN_OR_RETURN(Device device, backend.open(description));
    RETURN_IF_ERROR(CalibrateEmulation(device));
    return device;
  }
  return absl::NotFoundError(absl::StrCat("no backend ", description.backend));
}

}  // namespace medley
