#include "kernels/arguments/adamw_step.h"

#include <cmath>

#include "runtime/device/ops.h"

namespace medley {

AdamWStep MakeAdamWStep(const AdamWArgs& args, const AdamWRange& range) {
  const double step = static_cast<double>(args.step);
  return {.gradient_scale = args.gradient_scale,
          .beta1 = args.beta1,
          .one_minus_beta1 = 1.0f - args.beta1,
          .beta2 = args.beta2,
          .one_minus_beta2 = 1.0f - args.beta2,
          .correction1 = static_cast<float>(1.0 - std::pow(static_cast<double>(args.beta1), step)),
          .correction2 = static_cast<float>(1.0 - std::pow(static_cast<double>(args.beta2), step)),
          .epsilon = args.epsilon,
          .learning_rate = args.learning_rate,
          .weight_decay = range.weight_decay};
}

}  // namespace medley
