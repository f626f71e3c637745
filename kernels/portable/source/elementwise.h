#pragma once
#include "kernels/portable/source/narrow.h"

// Elements: groups ceil(elements / GROUP_ELEMENTS).

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

KERNEL f32_to_bf16(SLICE(const float, x), SLICE(unsigned short, y), LONG elements) {
  OPEN(const float, x)
  OPEN(unsigned short, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) y[i] = RoundedToBf16(x[i]);
}

KERNEL bf16_to_f32(SLICE(const unsigned short, x), SLICE(float, y), LONG elements) {
  OPEN(const unsigned short, x)
  OPEN(float, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) y[i] = WidenedBf16(x[i]);
}

KERNEL f32_to_f16(SLICE(const float, x), SLICE(unsigned short, y), LONG elements) {
  OPEN(const float, x)
  OPEN(unsigned short, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) y[i] = RoundedToF16(x[i]);
}

KERNEL f16_to_f32(SLICE(const unsigned short, x), SLICE(float, y), LONG elements) {
  OPEN(const unsigned short, x)
  OPEN(float, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) y[i] = WidenedF16(x[i]);
}

// y[rows, stride] gets x[rows, columns] and nothing beside it. Groups (rows, ceil(columns / GROUP_ELEMENTS)).
KERNEL f32_to_bf16_rows(SLICE(const float, x), SLICE(unsigned short, y), LONG columns, LONG stride) {
  OPEN(const float, x)
  OPEN(unsigned short, y)
  const LONG row = GROUP_ID_0;
  EACH_ELEMENT(c, GROUP_ID_1, columns) y[row * stride + c] = RoundedToBf16(x[row * columns + c]);
}

KERNEL f32_to_f16_rows(SLICE(const float, x), SLICE(unsigned short, y), LONG columns, LONG stride) {
  OPEN(const float, x)
  OPEN(unsigned short, y)
  const LONG row = GROUP_ID_0;
  EACH_ELEMENT(c, GROUP_ID_1, columns) y[row * stride + c] = RoundedToF16(x[row * columns + c]);
}
