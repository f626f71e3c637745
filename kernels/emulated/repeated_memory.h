#pragma once
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/base/bytes.h"
#include "runtime/device/copy_lane.h"

namespace medley {

// What is larger repeats itself.
constexpr Bytes kMostRealMemory = MiB(64);

// Memory of `size` for values that nobody computes with, aligned to 64, of which no more than kMostRealMemory is there: what is
// behind that is the same memory over and over, so that what is written to one place is found in others, too. InvalidArgument:
// `size` is negative. ResourceExhausted: the host has not so much memory, or so many addresses.
absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocateRepeatedMemory(Bytes size);

}  // namespace medley
