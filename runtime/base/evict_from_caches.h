#pragma once
#include <cstddef>

#include "absl/types/span.h"

namespace medley {

// Leaves no part of `bytes` in the caches of any core, their values in memory alone: who touches them next waits for memory. On
// processors other than x86-64 and ARM64 nothing happens.
void EvictFromCaches(absl::Span<const std::byte> bytes);

}  // namespace medley
