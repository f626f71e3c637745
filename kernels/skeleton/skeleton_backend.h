#pragma once
#include "runtime/device/device.h"

namespace medley {

// The least backend that is complete: what to begin a new one from. Its device is host memory that poses as
// the memory of an accelerator; it adds by itself and leaves every other op to the reference on the host. Not
// in products. `variant` must be empty, `cores` is not looked at.
Backend SkeletonBackend();

}  // namespace medley
