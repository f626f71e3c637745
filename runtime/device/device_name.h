#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "runtime/device/device_description.h"

namespace medley {

// A device as people name it on a command line: "backend", "backend:variant", and either with "/cores" at the
// end, which takes the first so many cores: "reference", "cpu:avx512", "cpu:avx2/2". Fills in backend,
// variant and cores (none without "/cores") and takes the whole text as the name; the memory limit stays 0.
//
// InvalidArgument: no backend or variant where one is announced; a number of cores that is not in [1, 4096].
// Whether there is such a backend, variant or core is not asked.
absl::StatusOr<DeviceDescription> ParseDeviceName(const std::string& text);

}  // namespace medley
