#include "kernels/cpu/subnormals.h"

#include <xmmintrin.h>

namespace medley {
namespace {

constexpr unsigned kFlushToZero = 0x8000, kSubnormalsAreZero = 0x0040;

void SetTeam(int threads, unsigned control) {
#pragma omp parallel num_threads(threads) if (threads > 1)
  _mm_setcsr(control);
}

}  // namespace

FlushSubnormals::FlushSubnormals(int threads) : threads_(threads), before_(_mm_getcsr()) {
  SetTeam(threads_, before_ | kFlushToZero | kSubnormalsAreZero);
}

FlushSubnormals::~FlushSubnormals() { SetTeam(threads_, before_); }

}  // namespace medley
