#pragma once
#include "kernels/cpu/vector_types.h"

// LayerNorm and RMSNorm.
// The rules at the top of vector_types.h hold here too.
namespace medley {
namespace {

void LayerNormForward(const float* x, const float* gamma, const float* beta, float* y, float* mean,
                      float* rstd, int64_t rows, int64_t columns, float epsilon) {
  const float inverse = 1.0f / static_cast<float>(columns);
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const float center = SumOver(x, columns, [](Floats v) { return v; }) * inverse;
    const float variance =
        SumOver(x, columns, [center](Floats v) { return (v - center) * (v - center); }) * inverse;
    const float scale = 1.0f / __builtin_sqrtf(variance + epsilon);
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      Store(y + c, (Load(x + c) - center) * scale * Load(gamma + c) + Load(beta + c));
    }
    for (; c < columns; ++c) y[c] = (x[c] - center) * scale * gamma[c] + beta[c];
    mean[r] = center;
    rstd[r] = scale;
  }
}

void LayerNormBackward(const float* dy, const float* x, const float* gamma, const float* mean,
                       const float* rstd, float* dx, float* dgamma, float* dbeta, int64_t rows,
                       int64_t columns, int add_dx) {
  const float inverse = 1.0f / static_cast<float>(columns);
  for (int64_t r = 0; r < rows; ++r, x += columns, dy += columns, dx += columns) {
    const float center = mean[r], scale = rstd[r];
    Floats sums{}, normal_sums{};
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      const Floats d = Load(dy + c), normal = (Load(x + c) - center) * scale, d_normal = d * Load(gamma + c);
      sums += d_normal;
      normal_sums += d_normal * normal;
      Store(dgamma + c, Load(dgamma + c) + d * normal);
      Store(dbeta + c, Load(dbeta + c) + d);
    }
    float sum = Sum(sums), normal_sum = Sum(normal_sums);
    for (; c < columns; ++c) {
      const float normal = (x[c] - center) * scale, d_normal = dy[c] * gamma[c];
      sum += d_normal;
      normal_sum += d_normal * normal;
      dgamma[c] += dy[c] * normal;
      dbeta[c] += dy[c];
    }
    sum *= inverse;
    normal_sum *= inverse;
    for (c = 0; c + kLanes <= columns; c += kLanes) {
      const Floats normal = (Load(x + c) - center) * scale;
      const Floats value = (Load(dy + c) * Load(gamma + c) - sum - normal * normal_sum) * scale;
      Store(dx + c, add_dx ? Load(dx + c) + value : value);
    }
    for (; c < columns; ++c) {
      const float value = (dy[c] * gamma[c] - sum - (x[c] - center) * scale * normal_sum) * scale;
      dx[c] = add_dx ? dx[c] + value : value;
    }
  }
}

void RmsNormForward(const float* x, const float* gamma, float* y, float* rstd, int64_t rows, int64_t columns,
                    float epsilon) {
  const float inverse = 1.0f / static_cast<float>(columns);
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const float square = SumOver(x, columns, [](Floats v) { return v * v; }) * inverse;
    const float scale = 1.0f / __builtin_sqrtf(square + epsilon);
    MapBinary(x, gamma, y, columns, [scale](Floats v, Floats g) { return v * scale * g; });
    rstd[r] = scale;
  }
}

void RmsNormBackward(const float* dy, const float* x, const float* gamma, const float* rstd, float* dx,
                     float* dgamma, int64_t rows, int64_t columns, int add_dx) {
  const float inverse = 1.0f / static_cast<float>(columns);
  for (int64_t r = 0; r < rows; ++r, x += columns, dy += columns, dx += columns) {
    const float scale = rstd[r];
    Floats sums{};
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      const Floats d = Load(dy + c), normal = Load(x + c) * scale;
      sums += d * Load(gamma + c) * normal;
      Store(dgamma + c, Load(dgamma + c) + d * normal);
    }
    float sum = Sum(sums);
    for (; c < columns; ++c) {
      const float normal = x[c] * scale;
      sum += dy[c] * gamma[c] * normal;
      dgamma[c] += dy[c] * normal;
    }
    const float projection = sum * inverse;
    for (c = 0; c + kLanes <= columns; c += kLanes) {
      const Floats value = (Load(dy + c) * Load(gamma + c) - Load(x + c) * scale * projection) * scale;
      Store(dx + c, add_dx ? Load(dx + c) + value : value);
    }
    for (; c < columns; ++c) {
      const float value = (dy[c] * gamma[c] - x[c] * scale * projection) * scale;
      dx[c] = add_dx ? dx[c] + value : value;
    }
  }
}

}  // namespace
}  // namespace medley
