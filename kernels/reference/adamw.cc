#include <cmath>

#include "kernels/arguments/adamw_step.h"
#include "kernels/reference/accept.h"

namespace medley {

absl::Status ReferenceOps::AdamW(const AdamWArgs& args) {
  RETURN_IF_ERROR(Accept(args));
  float* parameter = HostPointer<float>(args.parameter);
  const float* gradient = HostPointer<float>(args.gradient);
  float* m = HostPointer<float>(args.m);
  float* v = HostPointer<float>(args.v);
  for (const AdamWRange& range : args.ranges) {
    const AdamWStep step = MakeAdamWStep(args, range);
    for (int64_t i = range.first; i < range.first + range.elements; ++i) {
      const float g = step.gradient_scale * gradient[i];
      m[i] = step.beta1 * m[i] + step.one_minus_beta1 * g;
      v[i] = step.beta2 * v[i] + step.one_minus_beta2 * (g * g);
      const float update = (m[i] / step.correction1) / (std::sqrt(v[i] / step.correction2) + step.epsilon);
      parameter[i] = parameter[i] - step.learning_rate * (update + step.weight_decay * parameter[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace medley
