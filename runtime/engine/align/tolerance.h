#pragma once
#include "runtime/base/dtype.h"
#include "runtime/device/op_table.h"

// How far a device may be from the exact result: the one table, for the conformance suite and for `medley
// align`.
namespace medley {

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
    // worst, the errors of independent products average out, and a device may do it in f32 instead.
    case Arithmetic::kSum:
      return precision == Precision::kF32 ? 2e-6 : 1e-2;
    // Each stage adds its own; in bf16, probabilities and their gradients are rounded once more.
    case Arithmetic::kChain:
      return precision == Precision::kF32 ? 5e-6 : 2e-2;
  }
  return 0;
}

// What storing it as `dtype` adds: results that differ a little may round to neighbours.
inline double RoundingOf(Arithmetic arithmetic, Dtype dtype) {
  return arithmetic != Arithmetic::kExact && dtype == Dtype::kBf16 ? 0x1p-8 : 0;
}

inline constexpr double kNothing = 1e-30;

// The relative tolerance for the mean loss of one training step: two devices start from the same parameters,
// and each step's roundings enter the next.
inline double LossToleranceOf(Precision precision) { return precision == Precision::kF32 ? 1e-5 : 1e-2; }

}  // namespace medley
