#include "kernels/portable/source/typed/element_type.h"

// Runs of neighbours x[first], x[first + 1], ..., of which those from `end` on do not exist: they are 0, and are not
// written. `whole`, a constant: all runs are ARE_RUNS, and so each is one access of the memory. Kernels have a body
// for either, so that the accesses of a loop's turns are under way together.

typedef struct RUN_ALIGNMENT(sizeof(STORED)) {
  STORED values[RUN_ELEMENTS];
} TYPED(Run);

INLINE void TYPED(Load)(GLOBAL const STORED* x, LONG first, LONG end, int whole, float* values) {
  if (whole) {
    TYPED(Run) run = {{0}};
    if (first < end) run = *(GLOBAL const TYPED(Run)*)(x + first);
    EACH_OF_RUN(k) values[k] = GET(run.values, k);
  } else {
    EACH_OF_RUN(k) values[k] = first + k < end ? GET(x, first + k) : 0.0f;
  }
}

INLINE void TYPED(Store)(GLOBAL STORED* x, LONG first, LONG end, int whole, const float* values) {
  if (whole) {
    TYPED(Run) run;
    EACH_OF_RUN(k) PUT(run.values, k, values[k]);
    if (first < end) *(GLOBAL TYPED(Run)*)(x + first) = run;
  } else {
    EACH_OF_RUN(k) {
      if (first + k < end) PUT(x, first + k, values[k]);
    }
  }
}
