#pragma once
#include "kernels/portable/source/kernel_language.h"

// 1 / (1 + e^-x), exact in both tails.
INLINE float Logistic(float x) { return 1.0f / (1.0f + EXP(-x)); }

// 0.5 (1 + tanh(u)) is Logistic(2u): one exponential, and no cancellation.
#define GELU_SCALE 1.5957691216057308f  // 2 sqrt(2/pi)
#define GELU_CUBIC 0.044715f

INLINE float Gelu(float x) { return x * Logistic(GELU_SCALE * (x + GELU_CUBIC * x * x * x)); }

INLINE float GeluGradient(float x) {
  const float u = GELU_SCALE * (x + GELU_CUBIC * x * x * x);
  const float slope = GELU_SCALE * (1.0f + 3.0f * GELU_CUBIC * x * x);
  const float half_one_plus_tanh = Logistic(u);
  return half_one_plus_tanh + x * half_one_plus_tanh * Logistic(-u) * slope;
}

KERNEL gelu_forward(SLICE(const float, x), SLICE(float, y), LONG elements) {
  OPEN(const float, x)
  OPEN(float, y)
  EACH_ELEMENT(i, GROUP_ID_0, elements) y[i] = Gelu(x[i]);
}

KERNEL gelu_backward(SLICE(const float, x), SLICE(const float, dy), SLICE(float, dx), LONG elements) {
  OPEN(const float, x)
  OPEN(const float, dy)
  OPEN(float, dx)
  EACH_ELEMENT(i, GROUP_ID_0, elements) dx[i] = dy[i] * GeluGradient(x[i]);
}

// Rows: groups (rows, ceil(columns / GROUP_ELEMENTS)).

KERNEL swiglu_forward(SLICE(const float, x), SLICE(float, y), LONG columns) {
  OPEN(const float, x)
  OPEN(float, y)
  const LONG row = GROUP_ID_0;
  EACH_ELEMENT(c, GROUP_ID_1, columns) {
    const float gate = x[row * 2 * columns + c];
    y[row * columns + c] = gate * Logistic(gate) * x[row * 2 * columns + columns + c];
  }
}

// A work-item reads its gate and up before it writes their gradients, so dx may be x.
KERNEL swiglu_backward(SLICE(const float, x), SLICE(const float, dy), SLICE(float, dx), LONG columns) {
  OPEN(const float, x)
  OPEN(const float, dy)
  OPEN(float, dx)
  const LONG row = GROUP_ID_0;
  EACH_ELEMENT(c, GROUP_ID_1, columns) {
    const LONG at_gate = row * 2 * columns + c, at_up = at_gate + columns;
    const float gate = x[at_gate], up = x[at_up], gradient = dy[row * columns + c];
    const float logistic = Logistic(gate);
    dx[at_gate] = gradient * up * logistic * (1.0f + gate * Logistic(-gate));
    dx[at_up] = gradient * gate * logistic;
  }
}

#define EPILOGUE_BIAS 0
#define EPILOGUE_GELU 1
#define EPILOGUE_GELU_GRADIENT 2

// What follows a product c[rows, columns] that a library left plain.
KERNEL matmul_epilogue(SLICE(float, c), SLICE(const float, bias), SLICE(float, pre_activation), LONG columns,
                       int has_bias, int epilogue) {
  OPEN(float, c)
  OPEN(const float, bias)
  OPEN(float, pre_activation)
  const LONG first = GROUP_ID_0 * columns;
  EACH_ELEMENT(i, GROUP_ID_1, columns) {
    float value = c[first + i];
    if (has_bias) value += bias[i];
    if (epilogue == EPILOGUE_GELU) {
      pre_activation[first + i] = value;
      value = Gelu(value);
    } else if (epilogue == EPILOGUE_GELU_GRADIENT) {
      value *= GeluGradient(pre_activation[first + i]);
    }
    c[first + i] = value;
  }
}
