#pragma once
#include "kernels/portable/source/kernel_language.h"

// Elements: groups ceil(elements / GROUP_ELEMENTS).

KERNEL add(SLICE(const float, a), SLICE(const float, b), SLICE(float, c), LONG elements) {
  OPEN(const float, a)
  OPEN(const float, b)
  OPEN(float, c)
  EACH_ELEMENT(i, GROUP_ID_0, elements) c[i] = a[i] + b[i];
}

KERNEL scale(SLICE(float, x), LONG elements, float factor) {
  OPEN(float, x)
  EACH_ELEMENT(i, GROUP_ID_0, elements) x[i] *= factor;
}

KERNEL fill(SLICE(float, x), LONG elements, float value) {
  OPEN(float, x)
  EACH_ELEMENT(i, GROUP_ID_0, elements) x[i] = value;
}

KERNEL copy_words(SLICE(const unsigned int, x), SLICE(unsigned int, y), LONG elements) {
  OPEN(const unsigned int, x)
  OPEN(unsigned int, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) y[i] = x[i];
}

KERNEL copy_half_words(SLICE(const unsigned short, x), SLICE(unsigned short, y), LONG elements) {
  OPEN(const unsigned short, x)
  OPEN(unsigned short, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) y[i] = x[i];
}

// To the nearest bf16, ties to even. A NaN stays a (quiet) NaN.
KERNEL f32_to_bf16(SLICE(const float, x), SLICE(unsigned short, y), LONG elements) {
  OPEN(const float, x)
  OPEN(unsigned short, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) {
    const unsigned int bits = BITS_OF(x[i]);
    const unsigned int rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    y[i] = (unsigned short)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
  }
}

KERNEL bf16_to_f32(SLICE(const unsigned short, x), SLICE(float, y), LONG elements) {
  OPEN(const unsigned short, x)
  OPEN(float, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) y[i] = FLOAT_OF((unsigned int)x[i] << 16);
}

// To the nearest f16, ties to even, subnormals included; what is too large becomes infinite. A NaN stays a (quiet)
// NaN.
KERNEL f32_to_f16(SLICE(const float, x), SLICE(unsigned short, y), LONG elements) {
  OPEN(const float, x)
  OPEN(unsigned short, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) {
    const unsigned int bits = BITS_OF(x[i]), magnitude = bits & 0x7fffffffu;
    unsigned int half_bits = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Below 2^-14 the addition rounds to a multiple of 2^-24.
    if (magnitude < 0x38800000u) half_bits = BITS_OF(FLOAT_OF(magnitude) + 0.5f) - 0x3f000000u;
    if (magnitude >= 0x477ff000u) half_bits = 0x7c00u;
    if (magnitude > 0x7f800000u) half_bits = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    y[i] = (unsigned short)(half_bits | ((bits >> 16) & 0x8000u));
  }
}

KERNEL f16_to_f32(SLICE(const unsigned short, x), SLICE(float, y), LONG elements) {
  OPEN(const unsigned short, x)
  OPEN(float, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) {
    const unsigned int magnitude = (unsigned int)x[i] & 0x7fffu;
    unsigned int bits = BITS_OF((float)magnitude * 5.9604644775390625e-8f);  // subnormal: a multiple of 2^-24
    if (magnitude >= 0x400u) bits = (magnitude << 13) + 0x38000000u;
    if (magnitude >= 0x7c00u) bits = 0x7f800000u | (magnitude << 13);
    y[i] = FLOAT_OF(bits | (((unsigned int)x[i] & 0x8000u) << 16));
  }
}
