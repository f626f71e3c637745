#pragma once
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "runtime/device/op_table.h"
#include "runtime/device/ops.h"

// What each op reads and writes, for whoever treats all ops alike. From op_table.h.
namespace medley {

struct OpSlice {
  const char* name;      // the field, as in MatmulArgs
  Slice* slice;          // of the arguments that were asked about
  int64_t elements = 0;  // that the shape needs of it; an empty slice of optional use is left out
  Access access = Access::kRead;
  Dtype dtype = Dtype::kF32;
  Arithmetic arithmetic = Arithmetic::kExact;  // of what is written
  bool typed = false;
};

using OpSlices = absl::InlinedVector<OpSlice, 8>;

// For each op of op_list.h: the slices of `args`, with pointers into it, in the order of ops.h. Sizes must
// not be negative.
#define MEDLEY_DECLARE_SLICES(name) OpSlices SlicesOf(name##Args& args);
MEDLEY_EACH_OP(MEDLEY_DECLARE_SLICES)
#undef MEDLEY_DECLARE_SLICES

// Whether an operand is stored in a type narrower than f32.
inline bool HasNarrow(const OpSlices& slices) {
  for (const OpSlice& slice : slices) {
    if (slice.typed && slice.dtype != Dtype::kF32) return true;
  }
  return false;
}

}  // namespace medley
