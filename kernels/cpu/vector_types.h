#pragma once
// Included only by the sources that are compiled once for each instruction set. Everything here has internal
// linkage, and no standard header with inline functions is included: the linker keeps one copy of such a
// function, which could be one with instructions that another device must not execute.
#include <stdint.h>

namespace medley {
namespace {

#if defined(__AVX512F__)
#define MEDLEY_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define MEDLEY_VECTOR_BYTES 32
#else
#define MEDLEY_VECTOR_BYTES 16
#endif

typedef float Floats __attribute__((vector_size(MEDLEY_VECTOR_BYTES)));
typedef int32_t Ints __attribute__((vector_size(MEDLEY_VECTOR_BYTES)));
typedef float UnalignedFloats __attribute__((vector_size(MEDLEY_VECTOR_BYTES), aligned(4), may_alias));
constexpr int64_t kLanes = MEDLEY_VECTOR_BYTES / 4;

inline Floats Load(const float* from) { return *reinterpret_cast<const UnalignedFloats*>(from); }
inline void Store(float* to, Floats value) { *reinterpret_cast<UnalignedFloats*>(to) = value; }

inline Floats Broadcast(float value) { return value - Floats{}; }

// The first `count` < kLanes floats, then `rest`.
inline Floats LoadPart(const float* from, int64_t count, float rest) {
  Floats value = Broadcast(rest);
  for (int64_t i = 0; i < count; ++i) value[i] = from[i];
  return value;
}
inline void StorePart(float* to, Floats value, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = value[i];
}

// These give `b` for a NaN and a number, as the instructions do.
inline Floats Max(Floats a, Floats b) { return a > b ? a : b; }
inline Floats Min(Floats a, Floats b) { return a < b ? a : b; }

inline float Sum(Floats value) {
  float sum = 0;
  for (int64_t i = 0; i < kLanes; ++i) sum += value[i];
  return sum;
}
inline float Largest(Floats value) {
  float largest = value[0];
  for (int64_t i = 1; i < kLanes; ++i) largest = value[i] > largest ? value[i] : largest;
  return largest;
}

// e^x within 2 units in the last place; x below -87 gives e^-87, above 88 e^88, NaN gives NaN.
// 2^n * e^r with |r| <= ln(2)/2, ln(2) in two parts, and a polynomial of degree 7 (Cephes' coefficients).
inline Floats Exp(Floats x) {
  x = Min(Broadcast(88.0f), Max(Broadcast(-87.0f), x));
  // 1.5 * 2^23: leaves the nearest integer in the low bits.
  const Floats shifted = x * 1.44269504088896341f + 12582912.0f;
  const Floats n = shifted - 12582912.0f;
  const Floats r = x - n * 0.693359375f - n * -2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const Floats fraction = p * (r * r) + r + 1.0f;
  return fraction * (Floats)(((Ints)shifted << 23) + (127 << 23));
}

// y[i] = function(x[i]) by vectors; the last one is padded with zeros.
template <typename Function>
inline void MapUnary(const float* x, float* y, int64_t count, Function function) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(y + i, function(Load(x + i)));
  if (i < count) StorePart(y + i, function(LoadPart(x + i, count - i, 0.0f)), count - i);
}

template <typename Function>
inline void MapBinary(const float* a, const float* b, float* y, int64_t count, Function function) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(y + i, function(Load(a + i), Load(b + i)));
  if (i < count) {
    StorePart(y + i, function(LoadPart(a + i, count - i, 0.0f), LoadPart(b + i, count - i, 0.0f)), count - i);
  }
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

}  // namespace
}  // namespace medley
