#include "kernels/portable/source/activation.h"
#include "kernels/portable/source/typed/element_type.h"

KERNEL TYPED(gelu_forward)(SLICE(const STORED, x), SLICE(STORED, y), LONG elements) {
  OPEN(const STORED, x)
  OPEN(STORED, y)
  float values[ITEM_ELEMENTS];
  EACH_OF_ITEM(k, i, GROUP_ID_0, elements) values[k] = GET(x, i);
  EACH_OF_ITEM(k, i, GROUP_ID_0, elements) PUT(y, i, Gelu(values[k]));
}

KERNEL TYPED(gelu_backward)(SLICE(const STORED, x), SLICE(const STORED, dy), SLICE(STORED, dx),
                            LONG elements) {
  OPEN(const STORED, x)
  OPEN(const STORED, dy)
  OPEN(STORED, dx)
  float values[ITEM_ELEMENTS], gradients[ITEM_ELEMENTS];
  EACH_OF_ITEM(k, i, GROUP_ID_0, elements) {
    values[k] = GET(x, i);
    gradients[k] = GET(dy, i);
  }
  EACH_OF_ITEM(k, i, GROUP_ID_0, elements) PUT(dx, i, gradients[k] * GeluGradient(values[k]));
}

// Rows: groups (rows, ceil(columns / GROUP_ELEMENTS)).

KERNEL TYPED(swiglu_forward)(SLICE(const STORED, x), SLICE(STORED, y), LONG columns) {
  OPEN(const STORED, x)
  OPEN(STORED, y)
  const LONG row = GROUP_ID_0;
  float gates[ITEM_ELEMENTS], ups[ITEM_ELEMENTS];
  EACH_OF_ITEM(k, c, GROUP_ID_1, columns) {
    gates[k] = GET(x, row * 2 * columns + c);
    ups[k] = GET(x, row * 2 * columns + columns + c);
  }
  EACH_OF_ITEM(k, c, GROUP_ID_1, columns) {
    PUT(y, row * columns + c, gates[k] * Logistic(gates[k]) * ups[k]);
  }
}

// A work-item reads its gate and up before it writes their gradients, so dx may be x.
KERNEL TYPED(swiglu_backward)(SLICE(const STORED, x), SLICE(const STORED, dy), SLICE(STORED, dx),
                              LONG columns) {
  OPEN(const STORED, x)
  OPEN(const STORED, dy)
  OPEN(STORED, dx)
  const LONG row = GROUP_ID_0;
  float gates[ITEM_ELEMENTS], ups[ITEM_ELEMENTS], gradients[ITEM_ELEMENTS];
  EACH_OF_ITEM(k, c, GROUP_ID_1, columns) {
    gates[k] = GET(x, row * 2 * columns + c);
    ups[k] = GET(x, row * 2 * columns + columns + c);
    gradients[k] = GET(dy, row * columns + c);
  }
  EACH_OF_ITEM(k, c, GROUP_ID_1, columns) {
    const LONG at_gate = row * 2 * columns + c;
    const float gate = gates[k], logistic = Logistic(gate);
    PUT(dx, at_gate, gradients[k] * ups[k] * logistic * (1.0f + gate * Logistic(-gate)));
    PUT(dx, at_gate + columns, gradients[k] * gate * logistic);
  }
}
