#pragma once
#include <compare>
#include <cstdint>

#include "kernels/emulated/emulation_profile.h"
#include "runtime/base/dtype.h"
#include "runtime/device/ops.h"
#include "runtime/device/uniform_ops.h"

namespace medley {

// What an op asks of a device, as far as its time depends on it. Ops with equal costs take equal times.
struct OpCost {
  OpKind kind = OpKind::kFill;
  Precision precision = Precision::kF32;  // of its products
  // Tells ops apart that do as much, one forward, one backward: transposes, epilogue, direction of a
  // rotation.
  uint8_t variation = 0;
  int64_t depth = 0;  // products that a matmul's element is the sum of: k
  double flops = 0;   // of products: 2 m n k; of causal attention only what the mask leaves; 0 for all others
  double bytes = 0;   // read and written once each, twice where an op updates in place

  friend auto operator<=>(const OpCost&, const OpCost&) = default;
};

// For each op of op_list.h. Sizes must not be negative. Pure.
#define MEDLEY_DECLARE_COST(name) OpCost CostOf(const name##Args& args);
MEDLEY_EACH_OP(MEDLEY_DECLARE_COST)
#undef MEDLEY_DECLARE_COST

// The roofline (Williams et al. 2009): the longer of computing and moving, and the overhead. Products of a
// precision that the device does not compute in run at its f32 rate.
double RooflineSeconds(const EmulationProfile& profile, const OpCost& cost);

}  // namespace medley
