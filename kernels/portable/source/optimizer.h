#pragma once
#include "kernels/portable/source/kernel_language.h"

// AdamW's bits are promised to be the same on every device: every operation rounds on its own.
NOTHING_IS_FUSED

// One row of the table for each range: its first group, its first element, the end of its elements, its
// weight decay (the bits of an f32). Rows are sorted; a group finds its own.
#define RANGE_FIELDS 4

// Groups: the sum over ranges of ceil(elements / GROUP_ELEMENTS).
KERNEL adamw(SLICE(float, parameter), SLICE(const float, gradient), SLICE(float, m), SLICE(float, v),
             SLICE(const LONG, ranges), LONG range_count, float gradient_scale, float beta1,
             float one_minus_beta1, float beta2, float one_minus_beta2, float correction1, float correction2,
             float epsilon, float learning_rate) {
  OPEN(float, parameter)
  OPEN(const float, gradient)
  OPEN(float, m)
  OPEN(float, v)
  OPEN(const LONG, ranges)
  LONG low = 0, high = range_count;  // the group's range is in [low, high)
  while (high - low > 1) {
    const LONG middle = (low + high) / 2;
    if (ranges[middle * RANGE_FIELDS] <= GROUP_ID_0) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const LONG first = ranges[low * RANGE_FIELDS + 1], elements = ranges[low * RANGE_FIELDS + 2] - first;
  const float weight_decay = FLOAT_OF((unsigned int)ranges[low * RANGE_FIELDS + 3]);
  EACH_ELEMENT(offset, GROUP_ID_0 - ranges[low * RANGE_FIELDS], elements) {
    const LONG i = first + offset;
    const float g = EXACT_MULTIPLY(gradient_scale, gradient[i]);
    const float new_m = EXACT_ADD(EXACT_MULTIPLY(beta1, m[i]), EXACT_MULTIPLY(one_minus_beta1, g));
    const float new_v =
        EXACT_ADD(EXACT_MULTIPLY(beta2, v[i]), EXACT_MULTIPLY(one_minus_beta2, EXACT_MULTIPLY(g, g)));
    const float deviation = EXACT_ADD(EXACT_SQRT(EXACT_DIVIDE(new_v, correction2)), epsilon);
    const float update = EXACT_DIVIDE(EXACT_DIVIDE(new_m, correction1), deviation);
    const float old = parameter[i];
    const float decayed = EXACT_ADD(update, EXACT_MULTIPLY(weight_decay, old));
    m[i] = new_m;
    v[i] = new_v;
    parameter[i] = EXACT_ADD(old, -EXACT_MULTIPLY(learning_rate, decayed));
  }
}
