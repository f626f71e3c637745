#pragma once
#include "absl/status/status.h"
#include "runtime/device/ops.h"

// What every backend checks at submission, in the same words.
namespace medley {

// For each op of op_list.h, absl::Status CheckTypedArguments(const MatmulArgs& args) and so on. Each returns
//   OutOfRange       a slice passes the end of its buffer, or has fewer elements than the shape needs;
//   InvalidArgument  a size is negative or impossible, a slice has no buffer, its offset is not a multiple
//                    of its element size, or it is of a type that the operand cannot be.
// CheckArguments, for kernels that know f32 alone, returns besides
//   Unimplemented    a tensor is stored in a narrower type; of Cast, which is how such a tensor becomes an f32
//                    one, only if both are, in unlike types.
// The message names the op, the field and the figures. Reads sizes alone, never contents. Pure.
#define MEDLEY_DECLARE_CHECK(name)                          \
  absl::Status CheckTypedArguments(const name##Args& args); \
  absl::Status CheckArguments(const name##Args& args);
MEDLEY_EACH_OP(MEDLEY_DECLARE_CHECK)
#undef MEDLEY_DECLARE_CHECK

}  // namespace medley
