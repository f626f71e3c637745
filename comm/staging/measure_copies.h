#pragma once
#include "absl/status/statusor.h"
#include "comm/staging/staging_terms.h"
#include "comm/transport/transport.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// What copies over `lane`, of `queue`, between `over` and host memory that is used over and over take at present, by the line through one of 4 KiB and one of 4 MiB, or of all of `over`
// (1 byte or more), which stays as it is; queue and lane must have nothing to do. Takes the time of a dozen copies each way.
// Errors: of lane and queue.
absl::StatusOr<CopyCosts> MeasureCopies(DeviceQueue& queue, Buffer& over, CopyLane& lane);

// What the memory that `queue` gives, such as `over`, is to messages over `transport`; measures where the host
// does not reach it. Takes no memory of the device.
absl::StatusOr<EndMemory> MeasureMemory(DeviceQueue& queue, Buffer& over, const Transport& transport);

// The same over memory of its own: 4 MiB, or what the device has left. ResourceExhausted: not even 64 KiB.
absl::StatusOr<EndMemory> MeasureMemory(DeviceQueue& queue, const Transport& transport);

// Bytes a second of copies between layers in host memory and a window on a device that has nothing else to do.
struct LayerCopySpeeds {
  double fetch_bytes_per_second = 0;  // to the device
  double store_bytes_per_second = 0;  // to the host
  bool host_reaches = true;  // the device's memory: nothing but layers in host memory needs such a copy
};

// Measures copies of `size`, 64 KiB to 64 MiB, or of what the device has left for them, over memory that it gives back: into a
// window that is used over and over, from and to host memory that no cache holds. Errors: of the device; ResourceExhausted: not
// even 64 KiB are left.
absl::StatusOr<LayerCopySpeeds> MeasureLayerCopies(DeviceQueue& queue, Bytes size);

}  // namespace medley
