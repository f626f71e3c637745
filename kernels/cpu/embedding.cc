#include <cstdint>

#include "kernels/arguments/token_row.h"
#include "kernels/cpu/accept.h"

namespace medley {

absl::Status CpuOps::EmbeddingForward(const EmbeddingForwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const int32_t* tokens = HostPointer<int32_t>(args.tokens);
  const float* token_embedding = HostPointer<float>(args.token_embedding);
  const float* position_embedding = HostPointer<float>(args.position_embedding);
  float* y = HostPointer<float>(args.y);
  const int64_t count = args.batch * args.sequence, columns = args.columns;
#pragma omp parallel for schedule(static) if (count * columns > kChunkElements)
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = RowOfToken(args, tokens[i]);
    const float* token = row < 0 ? nullptr : token_embedding + row * columns;
    const float* position =
        position_embedding == nullptr ? nullptr : position_embedding + i % args.sequence * columns;
    if (token != nullptr && position != nullptr) {
      kernels_.add(token, position, y + i * columns, columns);
    } else if (token != nullptr || position != nullptr) {
      std::copy_n(token != nullptr ? token : position, columns, y + i * columns);
    } else {
      std::fill_n(y + i * columns, columns, 0.0f);
    }
  }
  return absl::OkStatus();
}

// Threads share out the columns: a token may occur twice, and each sum keeps the order of the tokens.
absl::Status CpuOps::EmbeddingBackward(const EmbeddingBackwardArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  const int32_t* tokens = HostPointer<int32_t>(args.tokens);
  const float* dy = HostPointer<float>(args.dy);
  float* d_token_embedding = HostPointer<float>(args.d_token_embedding);
  float* d_position_embedding = HostPointer<float>(args.d_position_embedding);
  const int64_t count = args.batch * args.sequence, columns = args.columns;
  const int parts = count * columns > kChunkElements ? threads_ : 1;
#pragma omp parallel for schedule(static) if (parts > 1)
  for (int part = 0; part < parts; ++part) {
    const int64_t first = columns * part / parts, width = columns * (part + 1) / parts - first;
    for (int64_t i = 0; i < count; ++i) {
      if (const int64_t row = RowOfToken(args, tokens[i]); row >= 0) {
        float* to_token = d_token_embedding + row * columns + first;
        kernels_.add(to_token, dy + i * columns + first, to_token, width);
      }
      if (d_position_embedding == nullptr) continue;
      float* to_position = d_position_embedding + i % args.sequence * columns + first;
      kernels_.add(to_position, dy + i * columns + first, to_position, width);
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
