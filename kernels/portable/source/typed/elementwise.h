#include "kernels/portable/source/typed/element_type.h"

// Groups ceil(elements / GROUP_ELEMENTS).

KERNEL TYPED(add)(SLICE(const STORED, a), SLICE(const STORED, b), SLICE(STORED, c), LONG elements) {
  OPEN(const STORED, a)
  OPEN(const STORED, b)
  OPEN(STORED, c)
  float sums[ITEM_ELEMENTS];
  EACH_OF_ITEM(k, i, GROUP_ID_0, elements) sums[k] = GET(a, i) + GET(b, i);
  EACH_OF_ITEM(k, i, GROUP_ID_0, elements) PUT(c, i, sums[k]);
}
