#include "comm/collective/wire_math.h"

#include "runtime/base/vectorised.h"
#include "runtime/ir/collective/wire_type.h"

namespace medley {

MEDLEY_VECTORISED void AddFloats(float* __restrict sum, const float* __restrict come, size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] += come[i];
}

MEDLEY_VECTORISED void AddBf16(float* __restrict sum, const uint16_t* __restrict come, size_t count) {
  for (size_t i = 0; i < count; ++i) sum[i] += FromBf16(come[i]);
}

MEDLEY_VECTORISED void WidenBf16(float* __restrict values, const uint16_t* __restrict come, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = FromBf16(come[i]);
}

MEDLEY_VECTORISED void NarrowToBf16(uint16_t* __restrict wire, const float* __restrict values, size_t count) {
  for (size_t i = 0; i < count; ++i) wire[i] = ToBf16(values[i]);
}

MEDLEY_VECTORISED void NarrowAndRound(uint16_t* __restrict wire, float* __restrict values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    wire[i] = ToBf16(values[i]);
    values[i] = FromBf16(wire[i]);
  }
}

}  // namespace medley
