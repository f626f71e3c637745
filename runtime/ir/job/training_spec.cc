#include "runtime/ir/job/training_spec.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace medley {

double LearningRateAt(const OptimizerSettings& optimizer, int64_t step, int64_t steps) {
  const double peak = optimizer.learning_rate, floor = optimizer.minimum_learning_rate;
  if (step <= optimizer.warmup_steps) return peak * static_cast<double>(step) / optimizer.warmup_steps;
  const double span = static_cast<double>(std::max<int64_t>(1, steps - optimizer.warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - optimizer.warmup_steps) / span);
  switch (optimizer.decay) {
    case Decay::kCosine:
      return floor + (peak - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    case Decay::kLinear:
      return peak + (floor - peak) * progress;
    case Decay::kConstant:
      return peak;
  }
  return peak;
}

}  // namespace medley
