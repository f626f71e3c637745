#pragma once
#include <string>

#include "runtime/device/device.h"

namespace medley {

// The device that this binary tests, as "backend[:variant][/cores]", such as "opencl" or, on two cores,
// "cpu:avx2/2". A CPU variant limits its process for good, so there is one binary a device.
std::string DeviceUnderTestName();

// It, opened on the first cores at the first call, or null if this machine does not have it: then the test
// counts as skipped. An error other than Unavailable fails the running test.
Device* DeviceUnderTest();

// A reference device of this process.
Device& ReferenceDevice();

}  // namespace medley
