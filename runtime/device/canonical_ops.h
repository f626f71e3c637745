#pragma once
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/op_slices.h"
#include "runtime/device/ops.h"

// Small arguments of every op, for whoever runs each op once: to tell which kernel takes it, to compare two
// kernels.
namespace medley {

// One way of calling an op.
template <typename Args>
struct CanonicalOp {
  const char* form;  // what sets it apart from the op's first, which is "": "bias, GELU"
  Args args;         // sizes and options as in a small model; slices without buffers, until they are placed
};

// For each op of op_list.h, std::vector<CanonicalOp<MatmulArgs>> CanonicalMatmul() and so on, the plain form
// first. Sizes are multiples of 32, head sizes 64, precisions kF32. Ranges of AdamW are static.
#define MEDLEY_DECLARE_CANONICAL(name) std::vector<CanonicalOp<name##Args>> Canonical##name();
MEDLEY_EACH_OP(MEDLEY_DECLARE_CANONICAL)
#undef MEDLEY_DECLARE_CANONICAL

// The slices of a canonical op's `args` laid out in one new buffer of `queue`, and filled: numbers between
// 0.25 and 1.25, ids of the whole vocabulary, 0 for f64. The same contents every time. `args` then names
// the buffer, which is returned. Errors: of the queue.
#define MEDLEY_DECLARE_PLACE(name) \
  absl::StatusOr<std::unique_ptr<Buffer>> PlaceOperands(name##Args& args, DeviceQueue& queue);
MEDLEY_EACH_OP(MEDLEY_DECLARE_PLACE)
#undef MEDLEY_DECLARE_PLACE

}  // namespace medley
