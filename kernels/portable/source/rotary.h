#pragma once
#include "kernels/portable/source/kernel_language.h"

// Groups (batch * sequence, ceil(rotated_heads * half_size / GROUP_ELEMENTS)); a work-item turns pairs.
// `direction` is 1 or, for the gradient, -1.
KERNEL rotary(SLICE(float, x), SLICE(const float, cosine), SLICE(const float, sine), LONG sequence,
              LONG row_elements, LONG pairs, int half_size, float direction) {
  OPEN(float, x)
  OPEN(const float, cosine)
  OPEN(const float, sine)
  const LONG row = GROUP_ID_0, angles = row % sequence * half_size;
  EACH_ELEMENT(pair, GROUP_ID_1, pairs) {
    const int head = (int)pair / half_size, i = (int)pair % half_size;
    const LONG at = row * row_elements + head * 2 * half_size + i;
    const float first = x[at], second = x[at + half_size];
    const float c = cosine[angles + i], s = direction * sine[angles + i];
    x[at] = first * c - second * s;
    x[at + half_size] = second * c + first * s;
  }
}
