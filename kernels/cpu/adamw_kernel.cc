#include <stdint.h>

#include "kernels/arguments/adamw_step.h"

// Compiled once for each instruction set, always without fused multiply-add; see MakeAdamWStep for the
// operations.
namespace medley {

void MEDLEY_ADAMW(const AdamWStep& step, float* __restrict parameter, const float* __restrict gradient,
                  float* __restrict m, float* __restrict v, int64_t count) {
  const AdamWStep s = step;
  for (int64_t i = 0; i < count; ++i) {
    const float g = s.gradient_scale * gradient[i];
    const float first = s.beta1 * m[i] + s.one_minus_beta1 * g;
    const float second = s.beta2 * v[i] + s.one_minus_beta2 * (g * g);
    m[i] = first;
    v[i] = second;
    const float update = (first / s.correction1) / (__builtin_sqrtf(second / s.correction2) + s.epsilon);
    parameter[i] = parameter[i] - s.learning_rate * (update + s.weight_decay * parameter[i]);
  }
}

}  // namespace medley
