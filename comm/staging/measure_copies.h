#pragma once
#include "absl/status/statusor.h"
#include "comm/staging/staging_terms.h"
#include "comm/transport/transport.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// What copies over `lane`, of `queue`, take at present; both must have nothing to do. Some milliseconds, or
// where copies are slow the time of a dozen copies of 4 MiB. Takes as much of the device's memory meanwhile,
// or what it has left. Errors: of lane and queue; ResourceExhausted: not even 64 KiB are left.
absl::StatusOr<CopyCosts> MeasureCopies(DeviceQueue& queue, CopyLane& lane);

// What the memory that `queue` gives is to messages over `transport`; measures where the host does not reach
// it.
absl::StatusOr<EndMemory> MeasureMemory(DeviceQueue& queue, const Transport& transport);

}  // namespace medley
