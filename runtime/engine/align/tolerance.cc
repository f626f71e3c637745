#include "runtime/engine/align/tolerance.h"

namespace medley {

Arithmetic ArithmeticOf(OpKind op, std::string_view output) {
  switch (op) {
    case OpKind::kMatmul:
    case OpKind::kSumRows:
      return Arithmetic::kSum;
    case OpKind::kLayerNormForward:
    case OpKind::kRmsNormForward:
      return output == "y" ? Arithmetic::kChain : Arithmetic::kSum;
    case OpKind::kLayerNormBackward:
      return output == "dbeta" ? Arithmetic::kSum : Arithmetic::kChain;
    case OpKind::kRmsNormBackward:
    // 1 + tanh cancels for inputs far below zero, 1 - sigmoid for those far above.
    case OpKind::kGeluForward:
    case OpKind::kGeluBackward:
    case OpKind::kSwiGluForward:
    case OpKind::kSwiGluBackward:
    case OpKind::kAttentionForward:
    case OpKind::kAttentionBackward:
    case OpKind::kHeadLoss:
      return Arithmetic::kChain;
    case OpKind::kRotary:
    // Summed in f64, in an order of the device's own.
    case OpKind::kSquaredNorm:
      return Arithmetic::kPointwise;
    case OpKind::kEmbeddingForward:
    case OpKind::kEmbeddingBackward:
    case OpKind::kAdd:
    case OpKind::kScale:
    case OpKind::kCast:
    case OpKind::kAdamW:
    case OpKind::kFill:
      return Arithmetic::kExact;
  }
  return Arithmetic::kExact;
}

}  // namespace medley
