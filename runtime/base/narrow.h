#pragma once
#include <cstdint>

#include "runtime/base/bf16.h"
#include "runtime/base/dtype.h"
#include "runtime/base/f16.h"

namespace medley {

// The bits of `x` rounded to `dtype`, bf16 or f16; and back.
inline uint16_t ToNarrow(float x, Dtype dtype) { return dtype == Dtype::kF16 ? ToF16(x) : ToBf16(x); }
inline float FromNarrow(uint16_t bits, Dtype dtype) {
  return dtype == Dtype::kF16 ? FromF16(bits) : FromBf16(bits);
}

}  // namespace medley
