#pragma once

// The ops, one list for all that goes through every one of them: X(Matmul) stands for the method Ops::Matmul
// and its arguments MatmulArgs (ops.h).
#define MEDLEY_EACH_OP(X) \
  X(Matmul)               \
  X(LayerNormForward)     \
  X(LayerNormBackward)    \
  X(RmsNormForward)       \
  X(RmsNormBackward)      \
  X(Rotary)               \
  X(GeluForward)          \
  X(GeluBackward)         \
  X(SwiGluForward)        \
  X(SwiGluBackward)       \
  X(AttentionForward)     \
  X(AttentionBackward)    \
  X(EmbeddingForward)     \
  X(EmbeddingBackward)    \
  X(HeadLoss)             \
  X(HeadStatistics)       \
  X(JoinHeadStatistics)   \
  X(HeadGradient)         \
  X(Add)                  \
  X(Scale)                \
  X(Cast)                 \
  X(SumRows)              \
  X(AdamW)                \
  X(SquaredNorm)          \
  X(Fill)
