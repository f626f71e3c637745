#pragma once
#include <xxhash.h>

#include <cstring>
#include <string>
#include <string_view>

namespace medley {

// `bytes` with its last eight set to the XXH64 of what stands before them, as addresses end; so that what a
// checksum would keep out is looked at too.
inline std::string WithChecksum(std::string_view bytes) {
  std::string corrected(bytes);
  if (bytes.size() < 8) return corrected;
  const uint64_t sum = XXH64(bytes.data(), bytes.size() - 8, /*seed=*/0);
  std::memcpy(corrected.data() + bytes.size() - 8, &sum, 8);
  return corrected;
}

}  // namespace medley
