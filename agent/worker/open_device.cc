#include "absl/strings/str_cat.h"
#include "agent/worker/task.h"
#include "kernels/backends.h"

namespace medley {

absl::StatusOr<Device> OpenDevice(const DeviceDescription& description) {
  for (const Backend& backend : AllBackends()) {
    if (backend.name == description.backend) return backend.open(description);
  }
  return absl::NotFoundError(absl::StrCat("no backend ", description.backend));
}

}  // namespace medley
