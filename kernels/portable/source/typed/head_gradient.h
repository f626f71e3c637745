#include "kernels/portable/source/cross_entropy.h"
#include "kernels/portable/source/typed/element_type.h"

// A row of logits becomes the loss's gradient times `gradient_scale`, which lies in the type of activations from the
// row's beginning on: e^(logit - shift) times `factor`, less 1 at `target`, if that is one of them. The whole group
// calls it. An element of 16 bits takes the place of a logit that was read before, or in the same turn: all are read
// before one is written.
INLINE void TYPED(BecomeGradient)(GLOBAL float* logits, LONG vocabulary, LONG target, float shift,
                                  float factor, float gradient_scale) {
  GLOBAL STORED* gradient = (GLOBAL STORED*)logits;
  for (LONG turn = 0; turn < vocabulary; turn += GROUP_ELEMENTS) {
    float values[GROUP_ELEMENTS / GROUP_SIZE];
    UNROLL
    for (int k = 0; k < GROUP_ELEMENTS / GROUP_SIZE; ++k) {
      const LONG v = turn + k * GROUP_SIZE + LOCAL_ID;
      values[k] = v < vocabulary ? EXP(logits[v] - shift) * factor : 0;
    }
    BARRIER();
    UNROLL
    for (int k = 0; k < GROUP_ELEMENTS / GROUP_SIZE; ++k) {
      const LONG v = turn + k * GROUP_SIZE + LOCAL_ID;
      if (v < vocabulary) PUT(gradient, v, gradient_scale * (v == target ? values[k] - 1.0f : values[k]));
    }
  }
}

// Rows of logits are `stride` apart. Groups: rows.

#ifdef HAS_F64
// losses[row] = -log softmax(logits[row])[targets[row]].
KERNEL TYPED(softmax_cross_entropy)(SLICE(float, logits), SLICE(const int, targets), SLICE(double, losses),
                                    LONG vocabulary, LONG stride, float gradient_scale, int with_gradients) {
  OPEN(float, logits)
  OPEN(const int, targets)
  OPEN(double, losses)
  SHARED float maxima[GROUP_SIZE];
  SHARED double partial[GROUP_SIZE];
  const LONG row = GROUP_ID_0, first = row * stride;
  const int target = targets[row];
  float row_largest;
  const float row_sum = LargestAndSumOfRow(logits + first, vocabulary, maxima, partial, &row_largest);
  const float log_sum = LOG(row_sum);
  if (LOCAL_ID == 0) losses[row] = (double)log_sum + (double)row_largest - (double)logits[first + target];
  BARRIER();
  if (with_gradients)
    TYPED(BecomeGradient)(logits + first, vocabulary, target, row_largest, 1.0f / row_sum, gradient_scale);
}
#endif

// The logits are of the tokens [first_token, first_token + vocabulary).
KERNEL TYPED(head_gradient)(SLICE(float, logits), SLICE(const int, targets), SLICE(const float, log_sum_exp),
                            LONG vocabulary, LONG stride, LONG first_token, float gradient_scale) {
  OPEN(float, logits)
  OPEN(const int, targets)
  OPEN(const float, log_sum_exp)
  const LONG row = GROUP_ID_0;
  TYPED(BecomeGradient)
  (logits + row * stride, vocabulary, targets[row] - first_token, log_sum_exp[row], 1.0f, gradient_scale);
}
