#pragma once
#include "absl/status/statusor.h"
#include "comm/staging/staging_terms.h"
#include "comm/transport/transport.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// What copies over `lane`, of `queue`, take at present; both must have nothing to do. Some milliseconds, or
// where copies are slow the time of a dozen copies of 4 MiB. Copies from and to the first 4 MiB of `over`, or
// all of it (1 byte or more), which stays as it is. Errors: of lane and queue.
absl::StatusOr<CopyCosts> MeasureCopies(DeviceQueue& queue, Buffer& over, CopyLane& lane);

// What the memory that `queue` gives, such as `over`, is to messages over `transport`; measures where the host
// does not reach it. Takes no memory of the device.
absl::StatusOr<EndMemory> MeasureMemory(DeviceQueue& queue, Buffer& over, const Transport& transport);

// The same over memory of its own: 4 MiB, or what the device has left. ResourceExhausted: not even 64 KiB.
absl::StatusOr<EndMemory> MeasureMemory(DeviceQueue& queue, const Transport& transport);

}  // namespace medley
