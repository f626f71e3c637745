#pragma once
#include "kernels/portable/source/group_sums.h"

#ifdef HAS_F64

// The largest of a row of logits; returns the sum of e^(logit - largest). For each of the group's members, who
// all call it. One read for maximum and sum together: the sum is re-scaled when the maximum grows.
INLINE float LargestAndSumOfRow(GLOBAL const float* logits, LONG vocabulary, LOCAL float* maxima,
                                LOCAL double* partial, float* row_largest) {
  float largest = NEGATIVE_INFINITY, sum = 0;
  for (LONG turn = 0; turn < vocabulary; turn += GROUP_ELEMENTS) {
    float values[GROUP_ELEMENTS / GROUP_SIZE];
    UNROLL
    for (int k = 0; k < GROUP_ELEMENTS / GROUP_SIZE; ++k) {
      const LONG v = turn + k * GROUP_SIZE + LOCAL_ID;
      values[k] = v < vocabulary ? logits[v] : NEGATIVE_INFINITY;
    }
    float new_largest = largest;
    UNROLL
    for (int k = 0; k < GROUP_ELEMENTS / GROUP_SIZE; ++k) new_largest = MAX(new_largest, values[k]);
    // A difference of two infinities would be no number; one that is none shows in the sum.
    sum = largest == new_largest ? sum : sum * EXP(largest - new_largest);
    UNROLL
    for (int k = 0; k < GROUP_ELEMENTS / GROUP_SIZE; ++k) {
      if (values[k] != NEGATIVE_INFINITY) sum += EXP(values[k] - new_largest);
    }
    largest = new_largest;
  }
  maxima[LOCAL_ID] = largest;
  BARRIER();
  for (int span = GROUP_SIZE / 2; span > 0; span /= 2) {
    if (LOCAL_ID < span) maxima[LOCAL_ID] = MAX(maxima[LOCAL_ID], maxima[LOCAL_ID + span]);
    BARRIER();
  }
  *row_largest = maxima[0];
  // A work-item without any logit has a sum of 0, and minus infinity less a number for its exponent.
  return (float)SumOverGroup(partial, sum * EXP(largest - *row_largest));
}

// The logits are of the tokens [first_token, first_token + vocabulary): log_sum_exp[row] of them, and the
// target's, 0 if it is none of them. Rows are `stride` apart. Groups: rows.
KERNEL head_statistics(SLICE(const float, logits), SLICE(const int, targets), SLICE(float, log_sum_exp),
                       SLICE(float, target_logit), LONG vocabulary, LONG stride, LONG first_token) {
  OPEN(const float, logits)
  OPEN(const int, targets)
  OPEN(float, log_sum_exp)
  OPEN(float, target_logit)
  SHARED float maxima[GROUP_SIZE];
  SHARED double partial[GROUP_SIZE];
  const LONG row = GROUP_ID_0, first = row * stride, target = targets[row] - first_token;
  float row_largest;
  const float row_sum = LargestAndSumOfRow(logits + first, vocabulary, maxima, partial, &row_largest);
  if (LOCAL_ID != 0) return;
  log_sum_exp[row] = LOG(row_sum) + row_largest;
  target_logit[row] = target >= 0 && target < vocabulary ? logits[first + target] : 0;
}

// log_sum_exp[row] over the members' in statistics[member, row]; losses[row], if wanted, is that less the
// target's logit, which is in statistics[members, row]. Groups ceil(rows / GROUP_ELEMENTS).
KERNEL join_head_statistics(SLICE(const float, statistics), SLICE(float, log_sum_exp), SLICE(double, losses),
                            LONG members, LONG rows, int with_losses) {
  OPEN(const float, statistics)
  OPEN(float, log_sum_exp)
  OPEN(double, losses)
  EACH_ELEMENT(row, GROUP_ID_0, rows) {
    float largest = statistics[row], sum = 0;
    for (LONG member = 1; member < members; ++member) largest = MAX(largest, statistics[member * rows + row]);
    for (LONG member = 0; member < members; ++member) sum += EXP(statistics[member * rows + row] - largest);
    const float log_sum = LOG(sum);
    log_sum_exp[row] = log_sum + largest;
    if (with_losses)
      losses[row] = (double)log_sum + (double)largest - (double)statistics[members * rows + row];
  }
}

#endif
