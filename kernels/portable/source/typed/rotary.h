#include "kernels/portable/source/typed/element_type.h"

// Groups (batch * sequence, ceil(rotated_heads * half_size / GROUP_ELEMENTS)); a work-item turns pairs.
// `direction` is 1 or, for the gradient, -1.
KERNEL TYPED(rotary)(SLICE(STORED, x), SLICE(const float, cosine), SLICE(const float, sine), LONG sequence,
                     LONG row_elements, LONG pairs, int half_size, float direction) {
  OPEN(STORED, x)
  OPEN(const float, cosine)
  OPEN(const float, sine)
  const LONG row = GROUP_ID_0, angles = row % sequence * half_size;
  EACH_ELEMENT(pair, GROUP_ID_1, pairs) {
    const int head = (int)pair / half_size, i = (int)pair % half_size;
    const LONG at = row * row_elements + head * 2 * half_size + i;
    const float first = GET(x, at), second = GET(x, at + half_size);
    const float c = cosine[angles + i], s = direction * sine[angles + i];
    PUT(x, at, first * c - second * s);
    PUT(x, at + half_size, second * c + first * s);
  }
}
