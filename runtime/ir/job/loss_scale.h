#pragma once
#include <cstdint>

#include "runtime/base/dtype.h"

namespace medley {

// What the loss of a step is multiplied by before its gradients are computed, so that those which are too small
// for f16 are not lost, and what the gradients are divided by before they are used (Micikevicius et al. 2018,
// section 3.2). A power of two, so that it changes no bit of what stays in range. All ranks have the same one: it
// follows from the steps' norms.
struct LossScale {
  int64_t factor = 1;
  int64_t good_steps = 0;  // since it last changed

  // As PyTorch's GradScaler begins and grows.
  static constexpr int64_t kFirst = 1 << 16, kMost = 1 << 24, kStepsToGrow = 2000;

  static LossScale For(Precision precision) {
    return precision == Precision::kF16 ? LossScale{.factor = kFirst} : LossScale{};
  }

  // After a step whose gradients were finite. A scale of 1 is that of a job that does not scale, or has no room
  // left below it; only the former stays.
  void Grow(Precision precision) {
    if (precision != Precision::kF16 || ++good_steps < kStepsToGrow) return;
    good_steps = 0;
    if (factor < kMost) factor *= 2;
  }

  // After one whose loss or gradients were not. False: it cannot be the scale, which is 1.
  bool Shrink() {
    good_steps = 0;
    if (factor <= 1) return false;
    factor /= 2;
    return true;
  }

  friend bool operator==(const LossScale&, const LossScale&) = default;
};

}  // namespace medley
