#pragma once
#include "absl/status/statusor.h"
#include "runtime/device/device.h"

namespace medley {

// How fast the device multiplies large square matrices in `precision`: operations a second (two for each multiplication and addition), of the
// fastest of a few products, of the largest size that does not take long. What a job's model operations are held against. Blocks; for a
// second at most, but for the smallest size. ResourceExhausted: not even that fits; others: the device's.
absl::StatusOr<double> MeasureMatmulPeak(Device& device, Precision precision);

}  // namespace medley
