#include "kernels/portable/source/activation.h"
#include "kernels/portable/source/typed/neighbours.h"

// Elements: groups ceil(elements / (ELEMENT_TURNS * GROUP_ELEMENTS)).

INLINE void TYPED(GeluForward)(GLOBAL const STORED* x, GLOBAL STORED* y, LONG elements, int whole) {
  float values[ELEMENT_TURNS][RUN_ELEMENTS];
  EACH_ELEMENT_TURN(t) TYPED(Load)(x, FIRST_OF_TURN(t), elements, whole, values[t]);
  EACH_ELEMENT_TURN(t) {
    EACH_OF_RUN(k) values[t][k] = Gelu(values[t][k]);
    TYPED(Store)(y, FIRST_OF_TURN(t), elements, whole, values[t]);
  }
}

KERNEL TYPED(gelu_forward)(SLICE(const STORED, x), SLICE(STORED, y), LONG elements) {
  OPEN(const STORED, x)
  OPEN(STORED, y)
  if (ARE_RUNS(x, elements) && ARE_RUNS(y, elements)) {
    TYPED(GeluForward)(x, y, elements, 1);
  } else {
    TYPED(GeluForward)(x, y, elements, 0);
  }
}

INLINE void TYPED(GeluBackward)(GLOBAL const STORED* x, GLOBAL const STORED* dy, GLOBAL STORED* dx,
                                LONG elements, int whole) {
  float values[ELEMENT_TURNS][RUN_ELEMENTS], gradients[ELEMENT_TURNS][RUN_ELEMENTS];
  EACH_ELEMENT_TURN(t) {
    TYPED(Load)(x, FIRST_OF_TURN(t), elements, whole, values[t]);
    TYPED(Load)(dy, FIRST_OF_TURN(t), elements, whole, gradients[t]);
  }
  EACH_ELEMENT_TURN(t) {
    EACH_OF_RUN(k) gradients[t][k] *= GeluGradient(values[t][k]);
    TYPED(Store)(dx, FIRST_OF_TURN(t), elements, whole, gradients[t]);
  }
}

KERNEL TYPED(gelu_backward)(SLICE(const STORED, x), SLICE(const STORED, dy), SLICE(STORED, dx),
                            LONG elements) {
  OPEN(const STORED, x)
  OPEN(const STORED, dy)
  OPEN(STORED, dx)
  if (ARE_RUNS(x, elements) && ARE_RUNS(dy, elements) && ARE_RUNS(dx, elements)) {
    TYPED(GeluBackward)(x, dy, dx, elements, 1);
  } else {
    TYPED(GeluBackward)(x, dy, dx, elements, 0);
  }
}

// Rows: groups (rows, ceil(columns / GROUP_ELEMENTS)).

INLINE void TYPED(SwiGluForward)(GLOBAL const STORED* gate_row, GLOBAL STORED* y_row, LONG columns,
                                 int whole) {
  const LONG c = FIRST_OF_RUN(GROUP_ID_1);
  float gates[RUN_ELEMENTS], ups[RUN_ELEMENTS];
  TYPED(Load)(gate_row, c, columns, whole, gates);
  TYPED(Load)(gate_row + columns, c, columns, whole, ups);
  EACH_OF_RUN(k) ups[k] = gates[k] * Logistic(gates[k]) * ups[k];
  TYPED(Store)(y_row, c, columns, whole, ups);
}

KERNEL TYPED(swiglu_forward)(SLICE(const STORED, x), SLICE(STORED, y), LONG columns) {
  OPEN(const STORED, x)
  OPEN(STORED, y)
  const LONG row = GROUP_ID_0;
  if (ARE_RUNS(x, columns) && ARE_RUNS(y, columns)) {
    TYPED(SwiGluForward)(x + row * 2 * columns, y + row * columns, columns, 1);
  } else {
    TYPED(SwiGluForward)(x + row * 2 * columns, y + row * columns, columns, 0);
  }
}

// A work-item reads its gates and ups before it writes their gradients, so dx may be x.
INLINE void TYPED(SwiGluBackward)(GLOBAL const STORED* gate_row, GLOBAL const STORED* dy_row,
                                  GLOBAL STORED* d_gate_row, LONG columns, int whole) {
  const LONG c = FIRST_OF_RUN(GROUP_ID_1);
  float gates[RUN_ELEMENTS], ups[RUN_ELEMENTS], gradients[RUN_ELEMENTS];
  TYPED(Load)(gate_row, c, columns, whole, gates);
  TYPED(Load)(gate_row + columns, c, columns, whole, ups);
  TYPED(Load)(dy_row, c, columns, whole, gradients);
  EACH_OF_RUN(k) {
    float of_opposite;
    const float gate = gates[k], logistic = LogisticOfBoth(gate, &of_opposite);
    gates[k] = gradients[k] * ups[k] * logistic * (1.0f + gate * of_opposite);
    ups[k] = gradients[k] * gate * logistic;
  }
  TYPED(Store)(d_gate_row, c, columns, whole, gates);
  TYPED(Store)(d_gate_row + columns, c, columns, whole, ups);
}

KERNEL TYPED(swiglu_backward)(SLICE(const STORED, x), SLICE(const STORED, dy), SLICE(STORED, dx),
                              LONG columns) {
  OPEN(const STORED, x)
  OPEN(const STORED, dy)
  OPEN(STORED, dx)
  const LONG row = GROUP_ID_0, first = row * 2 * columns;
  if (ARE_RUNS(x, columns) && ARE_RUNS(dy, columns) && ARE_RUNS(dx, columns)) {
    TYPED(SwiGluBackward)(x + first, dy + row * columns, dx + first, columns, 1);
  } else {
    TYPED(SwiGluBackward)(x + first, dy + row * columns, dx + first, columns, 0);
  }
}
