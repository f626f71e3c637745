#include "kernels/portable/source/typed/neighbours.h"

// Groups ceil(elements / (ELEMENT_TURNS * GROUP_ELEMENTS)).

INLINE void TYPED(Add)(GLOBAL const STORED* a, GLOBAL const STORED* b, GLOBAL STORED* c, LONG elements,
                       int whole) {
  float sums[ELEMENT_TURNS][RUN_ELEMENTS], more[ELEMENT_TURNS][RUN_ELEMENTS];
  EACH_ELEMENT_TURN(t) {
    TYPED(Load)(a, FIRST_OF_TURN(t), elements, whole, sums[t]);
    TYPED(Load)(b, FIRST_OF_TURN(t), elements, whole, more[t]);
  }
  EACH_ELEMENT_TURN(t) {
    EACH_OF_RUN(k) sums[t][k] += more[t][k];
    TYPED(Store)(c, FIRST_OF_TURN(t), elements, whole, sums[t]);
  }
}

KERNEL TYPED(add)(SLICE(const STORED, a), SLICE(const STORED, b), SLICE(STORED, c), LONG elements) {
  OPEN(const STORED, a)
  OPEN(const STORED, b)
  OPEN(STORED, c)
  if (ARE_RUNS(a, elements) && ARE_RUNS(b, elements) && ARE_RUNS(c, elements)) {
    TYPED(Add)(a, b, c, elements, 1);
  } else {
    TYPED(Add)(a, b, c, elements, 0);
  }
}
