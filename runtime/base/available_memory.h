#pragma once
#include "runtime/base/bytes.h"

namespace medley {

// What this host could give programs at present without swapping ("MemAvailable"); 0 B: not known.
Bytes AvailableHostMemory();

}  // namespace medley
