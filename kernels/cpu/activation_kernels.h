#pragma once
#include "kernels/cpu/vector_types.h"

// GELU and SwiGLU.
// The rules at the top of vector_types.h hold here too.
namespace medley {
namespace {

constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715f;

// x (1 + tanh(u)) / 2 is x / (1 + e^-2u): no cancellation for any x.
inline Floats Gelu(Floats v) {
  const Floats minus_2u = v * (-2.0f * kGeluScale) * (1.0f + kGeluCubic * v * v);
  return v / (1.0f + Exp(minus_2u));
}

void GeluForward(const float* x, float* y, int64_t count) {
  MapUnary(x, y, count, [](Floats v) { return Gelu(v); });
}

void AddThenGelu(float* x, const float* added, float* y, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats sum = Load(x + i) + Load(added + i);
    Store(x + i, sum);
    Store(y + i, Gelu(sum));
  }
  if (i == count) return;
  const Floats sum = LoadPart(x + i, count - i, 0.0f) + LoadPart(added + i, count - i, 0.0f);
  StorePart(x + i, sum, count - i);
  StorePart(y + i, Gelu(sum), count - i);
}

void GeluBackward(const float* x, const float* dy, float* dx, int64_t count) {
  MapBinary(x, dy, dx, count, [](Floats v, Floats d) {
    const Floats square = v * v;
    const Floats e = Exp(Min(Broadcast(80.0f), v * (-2.0f * kGeluScale) * (1.0f + kGeluCubic * square)));
    const Floats s = 1.0f / (1.0f + e);
    const Floats du2 = (2.0f * kGeluScale) * (1.0f + (3.0f * kGeluCubic) * square);
    return d * (s + v * du2 * (e * s * s));
  });
}

// Rows of x are `columns` gates, then as many ups.
void SwiGluForward(const float* x, float* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += 2 * columns, y += columns) {
    MapBinary(x, x + columns, y, columns, [](Floats g, Floats up) { return g / (1.0f + Exp(-g)) * up; });
  }
}

// dx may be x: of each vector both inputs are read before the outputs are written.
void SwiGluBackward(const float* x, const float* dy, float* dx, int64_t rows, int64_t columns) {
  const auto gradients = [](Floats g, Floats up, Floats d, Floats* d_gate, Floats* d_up) {
    const Floats e = Exp(Min(Broadcast(80.0f), -g));
    const Floats s = 1.0f / (1.0f + e);
    *d_gate = d * up * (s + g * (e * s * s));
    *d_up = d * (g * s);
  };
  for (int64_t r = 0; r < rows; ++r, x += 2 * columns, dx += 2 * columns, dy += columns) {
    Floats d_gate, d_up;
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      gradients(Load(x + c), Load(x + columns + c), Load(dy + c), &d_gate, &d_up);
      Store(dx + c, d_gate);
      Store(dx + columns + c, d_up);
    }
    const int64_t rest = columns - c;
    if (rest == 0) continue;
    gradients(LoadPart(x + c, rest, 0.0f), LoadPart(x + columns + c, rest, 0.0f),
              LoadPart(dy + c, rest, 0.0f), &d_gate, &d_up);
    StorePart(dx + c, d_gate, rest);
    StorePart(dx + columns + c, d_up, rest);
  }
}

}  // namespace
}  // namespace medley
