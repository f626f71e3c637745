#pragma once
#include "kernels/portable/source/group_sums.h"

#ifdef HAS_F64

// The largest of a row of logits; returns the sum of e^(logit - largest). For each of the group's members, who
// all call it. One read for maximum and sum together: the sum is re-scaled when the maximum grows.
INLINE float LargestAndSumOfRow(GLOBAL const float* logits, LONG vocabulary, LOCAL float* maxima,
                                LOCAL double* partial, float* row_largest) {
  float largest = NEGATIVE_INFINITY, sum = 0;
  for (LONG v = LOCAL_ID; v < vocabulary; v += GROUP_SIZE) {
    const float logit = logits[v];
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
  *row_largest = maxima[0];
  return (float)SumOverGroup(partial, sum * EXP(largest - *row_largest));
}

// losses[row] = -log softmax(logits[row])[targets[row]], groups: rows. With gradients, the logits become the
// loss's gradient times `gradient_scale`.
KERNEL softmax_cross_entropy(SLICE(float, logits), SLICE(const int, targets), SLICE(double, losses),
                             LONG vocabulary, float gradient_scale, int with_gradients) {
  OPEN(float, logits)
  OPEN(const int, targets)
  OPEN(double, losses)
  SHARED float maxima[GROUP_SIZE];
  SHARED double partial[GROUP_SIZE];
  const LONG row = GROUP_ID_0, first = row * vocabulary;
  const int target = targets[row];
  float row_largest;
  const float row_sum = LargestAndSumOfRow(logits + first, vocabulary, maxima, partial, &row_largest);
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

// The logits are of the tokens [first_token, first_token + vocabulary): log_sum_exp[row] of them, and the
// target's, 0 if it is none of them. Groups: rows.
KERNEL head_statistics(SLICE(const float, logits), SLICE(const int, targets), SLICE(float, log_sum_exp),
                       SLICE(float, target_logit), LONG vocabulary, LONG first_token) {
  OPEN(const float, logits)
  OPEN(const int, targets)
  OPEN(float, log_sum_exp)
  OPEN(float, target_logit)
  SHARED float maxima[GROUP_SIZE];
  SHARED double partial[GROUP_SIZE];
  const LONG row = GROUP_ID_0, first = row * vocabulary, target = targets[row] - first_token;
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

// Logits of the tokens [first_token, first_token + vocabulary) become the loss's gradient times
// `gradient_scale`. Groups (rows, ceil(vocabulary / GROUP_ELEMENTS)).
KERNEL head_gradient(SLICE(float, logits), SLICE(const int, targets), SLICE(const float, log_sum_exp),
                     LONG vocabulary, LONG first_token, float gradient_scale) {
  OPEN(float, logits)
  OPEN(const int, targets)
  OPEN(const float, log_sum_exp)
  const LONG row = GROUP_ID_0, first = row * vocabulary, target = targets[row] - first_token;
  const float shift = log_sum_exp[row];
  EACH_ELEMENT(v, GROUP_ID_1, vocabulary) {
    const float probability = EXP(logits[first + v] - shift);
    logits[first + v] = gradient_scale * (v == target ? probability - 1.0f : probability);
  }
}
