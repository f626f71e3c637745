#pragma once
#include <algorithm>
#include <cstdint>

namespace medley {

// A message travels in chunks, so that what has come can be added and sent on while the rest is on its way:
// an eighth of it, or half of it between members that share memory, where a chunk is a copy and overlap gains
// little; within limits below which messages cost more than the overlap gains, and above which chunks fall
// out of the caches. Both ends cut alike. Predictions take eighths: nothing tells them which links are
// memory.
inline constexpr int kChunksAMessage = 8, kChunksInMemory = 2;
inline constexpr int64_t kSmallestChunkElements = int64_t{1} << 14, kLargestChunkElements = int64_t{1} << 16;

// How many chunks a message of `elements` (at least 1) is cut into; they differ by one element at most.
inline int64_t ChunksOf(int64_t elements, int chunks_wanted = kChunksAMessage) {
  const int64_t chunk = std::clamp(elements / chunks_wanted, kSmallestChunkElements, kLargestChunkElements);
  return (elements + chunk - 1) / chunk;
}

}  // namespace medley
