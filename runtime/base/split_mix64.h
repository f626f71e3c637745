#pragma once
#include <cstdint>

namespace medley {

// What the generator splitmix64 (Steele, Lea and Flood 2014) adds to its state for each number.
inline constexpr uint64_t kSplitMix64Increment = 0x9e3779b97f4a7c15ull;

// The generator's number at the state `x`. What has been initialised and ordered by it must stay as it is.
inline uint64_t SplitMix64(uint64_t x) {
  x += kSplitMix64Increment;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace medley
