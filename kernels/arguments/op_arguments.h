#pragma once
#include "absl/status/status.h"
#include "runtime/device/ops.h"

// What every backend checks at submission, in the same words.
namespace medley {

// For each op of op_list.h, absl::Status CheckArguments(const MatmulArgs& args) and so on. Each returns
//   OutOfRange       a slice passes the end of its buffer, or has fewer elements than the shape needs;
//   InvalidArgument  a size is negative or impossible, a slice has no buffer, or its offset is not a multiple
//                    of its element size.
// The message names the op, the field and the figures. Reads sizes alone, never contents. Pure.
#define MEDLEY_DECLARE_CHECK(name) absl::Status CheckArguments(const name##Args& args);
MEDLEY_EACH_OP(MEDLEY_DECLARE_CHECK)
#undef MEDLEY_DECLARE_CHECK

}  // namespace medley
