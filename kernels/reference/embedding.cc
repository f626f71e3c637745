#include <cstdint>

#include "kernels/arguments/token_row.h"
#include "kernels/reference/accept.h"

namespace medley {

absl::Status ReferenceOps::EmbeddingForward(const EmbeddingForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const float* token_embedding = HostPointer<float>(args.token_embedding);
  const float* position_embedding = HostPointer<float>(args.position_embedding);
  for (int64_t i = 0; i < args.batch * args.sequence; ++i) {
    const int64_t row = RowOfToken(args, HostPointer<int32_t>(args.tokens)[i]);
    const int64_t position = i % args.sequence;
    for (int64_t c = 0; c < args.columns; ++c) {
      const float value = row < 0 ? 0.0f : token_embedding[row * args.columns + c];
      HostPointer<float>(args.y)[i * args.columns + c] =
          position_embedding == nullptr ? value : value + position_embedding[position * args.columns + c];
    }
  }
  return absl::OkStatus();
}

// The sums are kept in f32, in token order: the contract fixes that order, and a table of V x C doubles would
// not be small.
absl::Status ReferenceOps::EmbeddingBackward(const EmbeddingBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  float* d_token_embedding = HostPointer<float>(args.d_token_embedding);
  float* d_position_embedding = HostPointer<float>(args.d_position_embedding);
  for (int64_t i = 0; i < args.batch * args.sequence; ++i) {
    const int64_t row = RowOfToken(args, HostPointer<int32_t>(args.tokens)[i]);
    const int64_t position = i % args.sequence;
    for (int64_t c = 0; c < args.columns; ++c) {
      const float dy = HostPointer<float>(args.dy)[i * args.columns + c];
      if (row >= 0) d_token_embedding[row * args.columns + c] += dy;
      if (d_position_embedding != nullptr) d_position_embedding[position * args.columns + c] += dy;
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
