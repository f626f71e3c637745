#pragma once
#include <compare>
#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/cuda/cudnn_graph.h"

namespace medley {

// The shape of AttentionForwardArgs and AttentionBackwardArgs.
struct AttentionShape {
  int64_t batch = 0, sequence = 0, heads = 0, key_value_heads = 0, head_size = 0;
  friend auto operator<=>(const AttentionShape&, const AttentionShape&) = default;
};

// The tensors of the plans below, as they are bound. All bf16 but the last rows; gradients are overwritten.
enum AttentionTensor : int64_t {
  kQuery = 1,  // at head 0 of a row [H+2K,D] of qkv, of [B,S,H+2K,D]
  kKey,        // at head H
  kValue,      // at head H+K
  kOut,        // [B,S,H,D]
  kDOut,       // [B,S,H,D]
  kDQuery,     // as kQuery, of dqkv
  kDKey,
  kDValue,
  kLogSumExp,    // f32 [B,H,S], of the scaled scores
  kScale,        // f32, by value: 1/sqrt(D)
  kMasked,       // f32, by value: what a masked score becomes
  kOne,          // f32, by value: 1
  kSoftmaxSum,   // f32 [B,H,S], scratch of the backward plan
  kDKeyHeads,    // bf16 [B,S,H,D], scratch of the backward plan where K < H: of each query head
  kDValueHeads,  // likewise
};

// out and log_sum_exp from query, key, value, scale, masked.
// Unimplemented: cuDNN has no engine for it on the target, with its words.
absl::StatusOr<CudnnPlan> CompileAttentionForward(const CudnnLibrary& library, const CudnnTarget& target,
                                                  const AttentionShape& shape);

// The three gradients from all of the above and d_out, scale, masked, one. The same bits from run to run.
absl::StatusOr<CudnnPlan> CompileAttentionBackward(const CudnnLibrary& library, const CudnnTarget& target,
                                                   const AttentionShape& shape);

}  // namespace medley
