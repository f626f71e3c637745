#pragma once
#include "kernels/portable/source/kernel_language.h"

// Sums in f64, in an order that depends on the sizes alone.
#ifdef HAS_F64

// The sum of `value` over the group, for each of its members. The whole group calls it.
INLINE double SumOverGroup(LOCAL double* partial, double value) {
  partial[LOCAL_ID] = value;
  BARRIER();
  for (int span = GROUP_SIZE / 2; span > 0; span /= 2) {
    if (LOCAL_ID < span) partial[LOCAL_ID] += partial[LOCAL_ID + span];
    BARRIER();
  }
  const double sum = partial[0];
  BARRIER();
  return sum;
}

// partial[group] = the sum of x^2 over every GROUPS_0-th run of GROUP_SIZE elements.
KERNEL squared_norm_partials(SLICE(const float, x), SLICE(double, sums), LONG elements) {
  OPEN(const float, x)
  OPEN(double, sums)
  SHARED double partial[GROUP_SIZE];
  double sum = 0;
  for (LONG i = GROUP_ID_0 * GROUP_SIZE + LOCAL_ID; i < elements; i += GROUPS_0 * GROUP_SIZE) {
    sum += (double)x[i] * (double)x[i];
  }
  const double total = SumOverGroup(partial, sum);
  if (LOCAL_ID == 0) sums[GROUP_ID_0] = total;
}

// out[0] = the sum of x, or += it. One group.
KERNEL sum_f64(SLICE(const double, x), SLICE(double, out), LONG elements, int adds) {
  OPEN(const double, x)
  OPEN(double, out)
  SHARED double partial[GROUP_SIZE];
  double sum = 0;
  for (LONG i = LOCAL_ID; i < elements; i += GROUP_SIZE) sum += x[i];
  const double total = SumOverGroup(partial, sum);
  if (LOCAL_ID == 0) out[0] = adds ? out[0] + total : total;
}

#endif
