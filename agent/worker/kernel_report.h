#pragma once
#include <string>

#include "proto/medley/v1/kernels.pb.h"
#include "runtime/device/device.h"

namespace medley {

// Runs every op of `device` once, in every form and in every precision that it computes natively, on small
// arguments (runtime/device/canonical_ops.h), and says which candidate took it and why those before declined.
// A device without candidates has one set of kernels, which is called `backend`.
// Does not fail: what cannot be asked says why in the report, whose `device` is left to the caller. An op
// that failed may have left an error in the queue: the device is of no further use.
v1::DeviceKernels DescribeKernels(Device& device, const std::string& backend);

}  // namespace medley
