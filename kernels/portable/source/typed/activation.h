#include "kernels/portable/source/activation.h"
#include "kernels/portable/source/typed/element_type.h"

KERNEL TYPED(gelu_forward)(SLICE(const STORED, x), SLICE(STORED, y), LONG elements) {
  OPEN(const STORED, x)
  OPEN(STORED, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) PUT(y, i, Gelu(GET(x, i)));
}

KERNEL TYPED(gelu_backward)(SLICE(const STORED, x), SLICE(const STORED, dy), SLICE(STORED, dx),
                            LONG elements) {
  OPEN(const STORED, x)
  OPEN(const STORED, dy)
  OPEN(STORED, dx)
  EACH_ELEMENT(i, GROUP_ID_0, elements) PUT(dx, i, GET(dy, i) * GeluGradient(GET(x, i)));
}

// Rows: groups (rows, ceil(columns / GROUP_ELEMENTS)).

KERNEL TYPED(swiglu_forward)(SLICE(const STORED, x), SLICE(STORED, y), LONG columns) {
  OPEN(const STORED, x)
  OPEN(STORED, y)
  const LONG row = GROUP_ID_0;
  EACH_ELEMENT(c, GROUP_ID_1, columns) {
    const float gate = GET(x, row * 2 * columns + c);
    PUT(y, row * columns + c, gate * Logistic(gate) * GET(x, row * 2 * columns + columns + c));
  }
}

// A work-item reads its gate and up before it writes their gradients, so dx may be x.
KERNEL TYPED(swiglu_backward)(SLICE(const STORED, x), SLICE(const STORED, dy), SLICE(STORED, dx),
                              LONG columns) {
  OPEN(const STORED, x)
  OPEN(const STORED, dy)
  OPEN(STORED, dx)
  const LONG row = GROUP_ID_0;
  EACH_ELEMENT(c, GROUP_ID_1, columns) {
    const LONG at_gate = row * 2 * columns + c, at_up = at_gate + columns;
    const float gate = GET(x, at_gate), up = GET(x, at_up), gradient = GET(dy, row * columns + c);
    const float logistic = Logistic(gate);
    PUT(dx, at_gate, gradient * up * logistic * (1.0f + gate * Logistic(-gate)));
    PUT(dx, at_up, gradient * gate * logistic);
  }
}
