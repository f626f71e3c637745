#pragma once
#include "kernels/portable/source/kernel_language.h"

// The types narrower than f32, as their bits.

// To the nearest bf16, ties to even. A NaN stays a (quiet) NaN.
INLINE unsigned short RoundedToBf16(float x) {
  const unsigned int bits = BITS_OF(x);
  const unsigned int rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (unsigned short)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

INLINE float WidenedBf16(unsigned short x) { return FLOAT_OF((unsigned int)x << 16); }

// To the nearest f16, ties to even, subnormals included; what is too large becomes infinite. A NaN stays a (quiet)
// NaN.
INLINE unsigned short RoundedToF16(float x) {
  const unsigned int bits = BITS_OF(x), magnitude = bits & 0x7fffffffu;
  unsigned int half_bits = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Below 2^-14 the addition rounds to a multiple of 2^-24.
  if (magnitude < 0x38800000u) half_bits = BITS_OF(FLOAT_OF(magnitude) + 0.5f) - 0x3f000000u;
  if (magnitude >= 0x477ff000u) half_bits = 0x7c00u;
  if (magnitude > 0x7f800000u) half_bits = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  return (unsigned short)(half_bits | ((bits >> 16) & 0x8000u));
}

INLINE float WidenedF16(unsigned short x) {
  const unsigned int magnitude = (unsigned int)x & 0x7fffu;
  unsigned int bits = BITS_OF((float)magnitude * 5.9604644775390625e-8f);  // subnormal: a multiple of 2^-24
  if (magnitude >= 0x400u) bits = (magnitude << 13) + 0x38000000u;
  if (magnitude >= 0x7c00u) bits = 0x7f800000u | (magnitude << 13);
  return FLOAT_OF(bits | (((unsigned int)x & 0x8000u) << 16));
}
