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
