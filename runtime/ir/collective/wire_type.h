#pragma once
#include <cstdint>

#include "runtime/base/bf16.h"

namespace medley {

// What floats travel as. Sums are in float either way.
enum class WireType : uint8_t { kF32, kBf16 };

inline int64_t WireBytes(WireType wire) { return wire == WireType::kBf16 ? 2 : 4; }

// What arrives of `value`.
inline float OnWire(float value, WireType wire) {
  return wire == WireType::kBf16 ? RoundToBf16(value) : value;
}

}  // namespace medley
