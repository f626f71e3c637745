#include "kernels/cpu/vector_kernels.h"

#include "kernels/cpu/vector_types.h"

// Compiled once for each instruction set, with MEDLEY_VECTOR_KERNELS the name of the table and MEDLEY_ADAMW
// that of the AdamW loop. The rules at the top of vector_types.h hold here too; std functions are called
// through C's.
extern "C" double log(double) noexcept;

namespace medley {

void MEDLEY_ADAMW(const AdamWStep& step, float* parameter, const float* gradient, float* m, float* v,
                  int64_t count);

namespace {

constexpr float kGeluScale = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715f;

// x (1 + tanh(u)) / 2 is x / (1 + e^-2u): no cancellation for any x.
void GeluForward(const float* x, float* y, int64_t count) {
  MapUnary(x, y, count, [](Floats v) {
    const Floats minus_2u = v * (-2.0f * kGeluScale) * (1.0f + kGeluCubic * v * v);
    return v / (1.0f + Exp(minus_2u));
  });
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

// The sum of function(x[i]).
template <typename Function>
inline float SumOver(const float* x, int64_t count, Function function) {
  Floats even{}, odd{};
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    even += function(Load(x + i));
    odd += function(Load(x + i + kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) even += function(Load(x + i));
  float sum = Sum(even + odd);
  for (; i < count; ++i) sum += function(Broadcast(x[i]))[0];
  return sum;
}

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

float LargestOf(const float* x, int64_t count) {
  Floats first = Broadcast(x[0]), second = first;
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    first = Max(first, Load(x + i));
    second = Max(second, Load(x + i + kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) first = Max(first, Load(x + i));
  if (i < count) first = Max(first, LoadPart(x + i, count - i, x[0]));
  return Largest(Max(first, second));
}

// Replaces x by e^(x - largest) and returns the sum.
float ExponentiateAndSum(float* x, int64_t count, float largest) {
  Floats sum{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Floats e = Exp(Load(x + i) - largest);
    Store(x + i, e);
    sum += e;
  }
  float total = Sum(sum);
  if (i < count) {
    const Floats e = Exp(LoadPart(x + i, count - i, largest) - largest);
    StorePart(x + i, e, count - i);
    for (int64_t j = i; j < count; ++j) total += e[j - i];
  }
  return total;
}

void SoftmaxRows(float* scores, int64_t rows, int64_t columns, int64_t first, float* inverse_sum,
                 float* log_sum_exp) {
  for (int64_t r = 0; r < rows; ++r, scores += columns) {
    const int64_t extent = first + r < columns ? first + r : columns;
    const float largest = LargestOf(scores, extent);
    const float sum = ExponentiateAndSum(scores, extent, largest);
    for (int64_t c = extent; c < columns; ++c) scores[c] = 0;
    inverse_sum[r] = 1.0f / sum;
    log_sum_exp[r] = static_cast<float>(largest + log(sum));
  }
}

void SoftmaxBackwardRows(float* scores, float* d_probability, int64_t rows, int64_t columns, int64_t first,
                         const float* log_sum_exp, const float* delta) {
  for (int64_t r = 0; r < rows; ++r, scores += columns, d_probability += columns) {
    const int64_t extent = first + r < columns ? first + r : columns;
    const float shift = log_sum_exp[r], minus = delta[r];
    int64_t c = 0;
    for (; c + kLanes <= extent; c += kLanes) {
      const Floats probability = Exp(Load(scores + c) - shift);
      Store(scores + c, probability);
      Store(d_probability + c, probability * (Load(d_probability + c) - minus));
    }
    if (c < extent) {
      const Floats probability = Exp(LoadPart(scores + c, extent - c, 0.0f) - shift);
      const Floats d = LoadPart(d_probability + c, extent - c, 0.0f);
      StorePart(scores + c, probability, extent - c);
      StorePart(d_probability + c, probability * (d - minus), extent - c);
    }
    for (c = extent; c < columns; ++c) scores[c] = d_probability[c] = 0;
  }
}

void ScaleRows(float* x, int64_t rows, int64_t columns, int64_t stride, const float* factor) {
  for (int64_t r = 0; r < rows; ++r) {
    const float by = factor[r];
    MapUnary(x + r * stride, x + r * stride, columns, [by](Floats v) { return v * by; });
  }
}

void DotRows(const float* a, const float* b, int64_t rows, int64_t columns, int64_t stride, float* out) {
  for (int64_t r = 0; r < rows; ++r, a += stride, b += stride) {
    Floats sums{};
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) sums += Load(a + c) * Load(b + c);
    float sum = Sum(sums);
    for (; c < columns; ++c) sum += a[c] * b[c];
    out[r] = sum;
  }
}

// Blocks this long are summed in f32, their sums in f64: a vocabulary is too long for f32 alone.
constexpr int64_t kSumBlock = 2048;

double HeadLossRow(const float* logits, int64_t vocabulary, int64_t target) {
  const float largest = LargestOf(logits, vocabulary);
  double sum = 0;
  for (int64_t i = 0; i < vocabulary; i += kSumBlock) {
    const int64_t count = vocabulary - i < kSumBlock ? vocabulary - i : kSumBlock;
    sum += SumOver(logits + i, count, [largest](Floats v) { return Exp(v - largest); });
  }
  return log(sum) + (static_cast<double>(largest) - logits[target]);
}

double HeadLossGradientRow(float* logits, int64_t vocabulary, int64_t target, float gradient_scale) {
  const float largest = LargestOf(logits, vocabulary);
  const double margin = static_cast<double>(largest) - logits[target];
  double sum = 0;
  for (int64_t i = 0; i < vocabulary; i += kSumBlock) {
    const int64_t count = vocabulary - i < kSumBlock ? vocabulary - i : kSumBlock;
    sum += ExponentiateAndSum(logits + i, count, largest);
  }
  const float by = static_cast<float>(gradient_scale / sum);
  MapUnary(logits, logits, vocabulary, [by](Floats v) { return v * by; });
  logits[target] -= gradient_scale;
  return log(sum) + margin;
}

void Add(const float* a, const float* b, float* c, int64_t count) {
  MapBinary(a, b, c, count, [](Floats x, Floats y) { return x + y; });
}

// Four rows at a time: half the traffic to `out`, and a shorter chain of roundings.
void SumRows(const float* x, int64_t rows, int64_t columns, int64_t stride, float* out) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      const float* at = x + c;
      Store(out + c, Load(out + c) +
                         ((Load(at) + Load(at + stride)) + (Load(at + 2 * stride) + Load(at + 3 * stride))));
    }
    for (; c < columns; ++c) {
      out[c] += (x[c] + x[c + stride]) + (x[c + 2 * stride] + x[c + 3 * stride]);
    }
  }
  for (; r < rows; ++r, x += stride) {
    for (int64_t c = 0; c < columns; ++c) out[c] += x[c];
  }
}

double SquaredNorm(const float* x, int64_t count) {
  typedef double Doubles __attribute__((vector_size(MEDLEY_VECTOR_BYTES)));
  typedef float HalfFloats __attribute__((vector_size(MEDLEY_VECTOR_BYTES / 2)));
  typedef float UnalignedHalf __attribute__((vector_size(MEDLEY_VECTOR_BYTES / 2), aligned(4), may_alias));
  constexpr int64_t half = kLanes / 2;
  Doubles even{}, odd{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Doubles low =
        __builtin_convertvector((HalfFloats) * reinterpret_cast<const UnalignedHalf*>(x + i), Doubles);
    const Doubles high =
        __builtin_convertvector((HalfFloats) * reinterpret_cast<const UnalignedHalf*>(x + i + half), Doubles);
    even += low * low;
    odd += high * high;
  }
  even += odd;
  double sum = 0;
  for (int64_t lane = 0; lane < half; ++lane) sum += even[lane];
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

void Fill(float* x, float value, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = value;
}

void ToBf16(const float* x, uint16_t* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, sizeof(bits));
    const uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40u;
    y[i] = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : nearest);
  }
}

}  // namespace

const VectorKernels MEDLEY_VECTOR_KERNELS = {
    .gelu_forward = GeluForward,
    .gelu_backward = GeluBackward,
    .layer_norm_forward = LayerNormForward,
    .layer_norm_backward = LayerNormBackward,
    .softmax_rows = SoftmaxRows,
    .softmax_backward_rows = SoftmaxBackwardRows,
    .scale_rows = ScaleRows,
    .dot_rows = DotRows,
    .head_loss_row = HeadLossRow,
    .head_loss_gradient_row = HeadLossGradientRow,
    .add = Add,
    .sum_rows = SumRows,
    .squared_norm = SquaredNorm,
    .fill = Fill,
    .to_bf16 = ToBf16,
    .adamw = MEDLEY_ADAMW,
};

}  // namespace medley
