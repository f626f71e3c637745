#pragma once
#include <bit>
#include <cstdint>

namespace medley {

// `x` rounded to the nearest bf16, ties to even; its upper 16 bits. A NaN stays a (quiet) NaN.
inline uint16_t ToBf16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

inline float FromBf16(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }

inline float RoundToBf16(float x) { return FromBf16(ToBf16(x)); }

}  // namespace medley
