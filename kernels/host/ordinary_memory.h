#pragma once
#include "runtime/device/copy_lane.h"

namespace medley {

// Pinned memory of queues for which all host memory is alike. Errors as CopyLane::AllocatePinned.
absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocateOrdinaryMemory(Bytes size);

}  // namespace medley
