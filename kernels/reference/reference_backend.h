#pragma once
#include "runtime/device/device.h"

namespace medley {

// Every op as the plainest loops over host memory, summed in f64: what the other backends are compared with.
// One thread. `variant` must be empty. `cores` may name several; the thread that opens the device is bound to
// them. Any number of devices a process. Rounds matmul and attention operands to bf16 where asked.
Backend ReferenceBackend();

}  // namespace medley
