#pragma once
#include "runtime/base/dtype.h"
#include "runtime/device/op_table.h"

// How far a device may be from the exact result: the one table, for the conformance suite and for `medley
// align`.
namespace medley {

inline double Of(Precision precision, double f32, double bf16, double f16) {
  return precision == Precision::kF32 ? f32 : precision == Precision::kBf16 ? bf16 : f16;
}

// An element is right if |got - want| <= tolerance * (|want| + the largest |want| of its tensor), or if the
// difference is below kNothing: where f64 has e^-1000, f32 may have e^-87.
inline double ToleranceOf(Arithmetic arithmetic, Precision precision) {
  switch (arithmetic) {
    case Arithmetic::kExact:
      return 0;
    // f32 has 6e-8 a rounding; the exponential is good to 2e-7 relative.
    case Arithmetic::kPointwise:
      return 5e-7;
    // Roundings of n terms add up to about sqrt(n) * 6e-8 of their sum. bf16 rounds operands to 4e-3 at
    // worst, f16 to 5e-4, the errors of independent products average out, and a device may do it in f32 instead.
    case Arithmetic::kSum:
      return Of(precision, 2e-6, 1e-2, 1.5e-3);
    // Each stage adds its own; in bf16, probabilities and their gradients are rounded once more.
    case Arithmetic::kChain:
      return Of(precision, 5e-6, 2e-2, 3e-3);
  }
  return 0;
}

// What storing it as `dtype` adds: results that differ a little may round to neighbours.
inline double RoundingOf(Arithmetic arithmetic, Dtype dtype) {
  if (arithmetic == Arithmetic::kExact) return 0;
  return dtype == Dtype::kBf16 ? 0x1p-8 : dtype == Dtype::kF16 ? 0x1p-11 : 0;
}

inline constexpr double kNothing = 1e-30;

// The relative tolerance for the mean loss of one training step: two devices start from the same parameters,
// and each step's roundings enter the next.
inline double LossToleranceOf(Precision precision) { return Of(precision, 1e-5, 1e-2, 2e-3); }

}  // namespace medley
