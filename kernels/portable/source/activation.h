#pragma once
#include "kernels/portable/source/kernel_language.h"

// 1 / (1 + e^-x), exact in both tails, and that of -x.
INLINE float LogisticOfBoth(float x, float* of_opposite) {
  const float power = EXP(MIN(-x, 86.0f));  // finite: times a result that is next to 0 it is next to 1
  const float result = RECIPROCAL(1.0f + power);
  *of_opposite = power * result;
  return result;
}
INLINE float Logistic(float x) { return RECIPROCAL(1.0f + EXP(-x)); }

// 0.5 (1 + tanh(u)) is Logistic(2u): one exponential, and no cancellation.
#define GELU_SCALE 1.5957691216057308f  // 2 sqrt(2/pi)
#define GELU_CUBIC 0.044715f

INLINE float Gelu(float x) { return x * Logistic(GELU_SCALE * (x + GELU_CUBIC * x * x * x)); }

INLINE float GeluGradient(float x) {
  const float u = GELU_SCALE * (x + GELU_CUBIC * x * x * x);
  const float slope = GELU_SCALE * (1.0f + 3.0f * GELU_CUBIC * x * x);
  float of_opposite;
  const float half_one_plus_tanh = LogisticOfBoth(u, &of_opposite);
  return half_one_plus_tanh + x * half_one_plus_tanh * of_opposite * slope;
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
