#include "kernels/cpu/vector_kernels.h"

#include "kernels/cpu/activation_kernels.h"
#include "kernels/cpu/normalization_kernels.h"
#include "kernels/cpu/softmax_kernels.h"
#include "kernels/cpu/vector_types.h"

// Compiled once for each instruction set, with MEDLEY_VECTOR_KERNELS the name of the table and MEDLEY_ADAMW
// that of the AdamW loop. The rules at the top of vector_types.h hold here too.

namespace medley {

void MEDLEY_ADAMW(const AdamWStep& step, float* parameter, const float* gradient, float* m, float* v,
                  int64_t count);

namespace {

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

void FromBf16(const uint16_t* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
    __builtin_memcpy(y + i, &bits, sizeof(bits));
  }
}

// As runtime/base/f16.h, without branches.
void ToF16(const float* x, uint16_t* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits, small_bits;
    __builtin_memcpy(&bits, x + i, sizeof(bits));
    const uint32_t magnitude = bits & 0x7fffffffu;
    const float small = __builtin_fabsf(x[i]) + 0.5f;
    __builtin_memcpy(&small_bits, &small, sizeof(small_bits));
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t quiet_nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    uint32_t half = magnitude < 0x38800000u ? small_bits - 0x3f000000u : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;
    half = magnitude > 0x7f800000u ? quiet_nan : half;
    y[i] = static_cast<uint16_t>(half | ((bits >> 16) & 0x8000u));
  }
}

void FromF16(const uint16_t* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const int32_t magnitude = x[i] & 0x7fff;
    const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
    int32_t bits;
    __builtin_memcpy(&bits, &subnormal, sizeof(bits));
    bits = magnitude >= 0x400 ? (magnitude << 13) + 0x38000000 : bits;
    bits = magnitude >= 0x7c00 ? 0x7f800000 | (magnitude << 13) : bits;
    bits |= (x[i] & 0x8000) << 16;
    __builtin_memcpy(y + i, &bits, sizeof(bits));
  }
}

// `sign` is 1 or -1, the direction.
void Rotary(float* x, const float* cosine, const float* sine, int64_t heads, int64_t half, float sign) {
  for (int64_t h = 0; h < heads; ++h, x += 2 * half) {
    float* high = x + half;
    int64_t d = 0;
    for (; d + kLanes <= half; d += kLanes) {
      const Floats a = Load(x + d), b = Load(high + d), by_cos = Load(cosine + d);
      const Floats by_sin = Load(sine + d) * sign;
      Store(x + d, a * by_cos - b * by_sin);
      Store(high + d, b * by_cos + a * by_sin);
    }
    for (; d < half; ++d) {
      const float a = x[d], b = high[d], by_sin = sine[d] * sign;
      x[d] = a * cosine[d] - b * by_sin;
      high[d] = b * cosine[d] + a * by_sin;
    }
  }
}

}  // namespace

const VectorKernels MEDLEY_VECTOR_KERNELS = {
    .gelu_forward = GeluForward,
    .add_then_gelu = AddThenGelu,
    .gelu_backward = GeluBackward,
    .swiglu_forward = SwiGluForward,
    .swiglu_backward = SwiGluBackward,
    .layer_norm_forward = LayerNormForward,
    .layer_norm_backward = LayerNormBackward,
    .rms_norm_forward = RmsNormForward,
    .rms_norm_backward = RmsNormBackward,
    .rotary = Rotary,
    .softmax_rows = SoftmaxRows,
    .softmax_backward_rows = SoftmaxBackwardRows,
    .scale_rows = ScaleRows,
    .dot_rows = DotRows,
    .head_loss_row = HeadLossRow,
    .head_loss_gradient_row = HeadLossGradientRow,
    .log_sum_exp_row = LogSumExpRow,
    .head_gradient_row = HeadGradientRow,
    .add = Add,
    .sum_rows = SumRows,
    .squared_norm = SquaredNorm,
    .fill = Fill,
    .to_bf16 = ToBf16,
    .from_bf16 = FromBf16,
    .to_f16 = ToF16,
    .from_f16 = FromF16,
    .adamw = MEDLEY_ADAMW,
};

}  // namespace medley
