#pragma once
#include "absl/status/status.h"
#include "runtime/device/ops.h"

// What every backend checks at submission, in the same words.
namespace medley {

// Each returns
//   OutOfRange       a slice passes the end of its buffer, or has fewer elements than the shape needs;
//   InvalidArgument  a size is negative, a slice has no buffer, or its offset is not a multiple of its
//   element size.
// The message names the op, the field and the figures. Reads sizes alone, never contents. Pure.
absl::Status CheckArguments(const MatmulArgs& args);
absl::Status CheckArguments(const LayerNormForwardArgs& args);
absl::Status CheckArguments(const LayerNormBackwardArgs& args);
absl::Status CheckArguments(const GeluForwardArgs& args);
absl::Status CheckArguments(const GeluBackwardArgs& args);
absl::Status CheckArguments(const AttentionForwardArgs& args);
absl::Status CheckArguments(const AttentionBackwardArgs& args);
absl::Status CheckArguments(const EmbeddingForwardArgs& args);
absl::Status CheckArguments(const EmbeddingBackwardArgs& args);
absl::Status CheckArguments(const HeadLossArgs& args);
absl::Status CheckArguments(const AddArgs& args);
absl::Status CheckArguments(const SumRowsArgs& args);
absl::Status CheckArguments(const AdamWArgs& args);
absl::Status CheckArguments(const SquaredNormArgs& args);
absl::Status CheckArguments(const FillArgs& args);

}  // namespace medley
