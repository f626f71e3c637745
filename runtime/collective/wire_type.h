#pragma once
#include <bit>
#include <cstdint>

namespace medley {

// What floats travel as. Sums are in float either way.
enum class WireType : uint8_t { kF32, kBf16 };

inline int64_t WireBytes(WireType wire) { return wire == WireType::kBf16 ? 2 : 4; }

// To the nearest, ties to even; a NaN stays one.
inline uint16_t ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}
inline float FromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// What arrives of `value`.
inline float OnWire(float value, WireType wire) {
  return wire == WireType::kBf16 ? FromBf16(ToBf16(value)) : value;
}

}  // namespace medley
