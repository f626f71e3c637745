#pragma once
#include "kernels/portable/source/group_sums.h"

#ifdef HAS_F64

// losses[row] = -log softmax(logits[row])[targets[row]], groups: rows. With gradients, the logits become the
// loss's gradient times `gradient_scale`. One read for maximum and sum together: the sum is re-scaled when
// the maximum grows.
KERNEL softmax_cross_entropy(SLICE(float, logits), SLICE(const int, targets), SLICE(double, losses),
                             LONG vocabulary, float gradient_scale, int with_gradients) {
  OPEN(float, logits)
  OPEN(const int, targets)
  OPEN(double, losses)
  SHARED float maxima[GROUP_SIZE];
  SHARED double partial[GROUP_SIZE];
  const LONG row = GROUP_ID_0, first = row * vocabulary;
  const int target = targets[row];
  float largest = NEGATIVE_INFINITY, sum = 0;
  for (LONG v = LOCAL_ID; v < vocabulary; v += GROUP_SIZE) {
    const float logit = logits[first + v];
    if (logit > largest) {
      sum = sum * EXP(largest - logit) + 1.0f;
      largest = logit;
    } else {
      sum += EXP(logit - largest);
    }
  }
  maxima[LOCAL_ID] = largest;
  BARRIER();
  for (int span = GROUP_SIZE / 2; span > 0; span /= 2) {
    if (LOCAL_ID < span) maxima[LOCAL_ID] = MAX(maxima[LOCAL_ID], maxima[LOCAL_ID + span]);
    BARRIER();
  }
  const float row_largest = maxima[0];
  const float row_sum = (float)SumOverGroup(partial, sum * EXP(largest - row_largest));
  const float log_sum = LOG(row_sum);
  if (LOCAL_ID == 0) losses[row] = (double)log_sum + (double)row_largest - (double)logits[first + target];
  BARRIER();
  if (!with_gradients) return;
  const float reciprocal = 1.0f / row_sum;
  for (LONG v = LOCAL_ID; v < vocabulary; v += GROUP_SIZE) {
    const float probability = EXP(logits[first + v] - row_largest) * reciprocal;
    logits[first + v] = gradient_scale * (v == target ? probability - 1.0f : probability);
  }
}

#endif
