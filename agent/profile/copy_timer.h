#pragma once
#include "absl/status/statusor.h"
#include "runtime/base/bytes.h"
#include "runtime/device/device.h"

namespace medley {

// Of copies of a layer's tensors between page-locked host memory and the device, which has nothing else to do.
struct CopySpeeds {
  double fetch_bytes_per_second = 0;  // to the device
  double store_bytes_per_second = 0;  // to the host
  bool host_reaches = true;           // the device's memory: nothing needs such a copy
};

// Times copies of `size`, at most 64 MiB, or of what the device has left for them; the least of a few counts. What it
// allocates it gives back. Errors: of the device; ResourceExhausted: not even 64 KiB are left.
absl::StatusOr<CopySpeeds> TimeCopies(Device& device, Bytes size);

}  // namespace medley
