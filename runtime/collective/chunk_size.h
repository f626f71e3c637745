#pragma once
#include <algorithm>
#include <cstdint>

namespace medley {

// A message travels in chunks, so that what has come can be added and sent on while the rest is on its way:
// half of it, within limits below which messages cost more than the overlap gains, and above which chunks fall
// out of the caches. Both ends, and the predictor, cut alike.
inline constexpr int64_t kSmallestChunkElements = int64_t{1} << 14, kLargestChunkElements = int64_t{1} << 16;

// How many chunks a message of `elements` (at least 1) is cut into; they differ by one element at most.
inline int64_t ChunksOf(int64_t elements) {
  const int64_t chunk = std::clamp(elements / 2, kSmallestChunkElements, kLargestChunkElements);
  return (elements + chunk - 1) / chunk;
}

}  // namespace medley
