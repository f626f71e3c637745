#pragma once
#include <cstdint>
#include <string_view>

#include "runtime/base/bytes.h"

namespace medley {

// Element types of stored tensors.
enum class Dtype : uint8_t { kF32, kF64, kBf16, kI32 };
inline constexpr int kDtypes = 4;

constexpr Bytes SizeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return {8};
    case Dtype::kBf16:
      return {2};
    case Dtype::kF32:
    case Dtype::kI32:
      return {4};
  }
  return {0};
}

constexpr std::string_view NameOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "f32";
    case Dtype::kF64:
      return "f64";
    case Dtype::kBf16:
      return "bf16";
    case Dtype::kI32:
      return "i32";
  }
  return "?";
}

// What a tensor takes in an arena, where each begins at a multiple of 64 bytes.
constexpr Bytes TensorBytes(int64_t elements, Dtype dtype) {
  return {(elements * SizeOf(dtype).value + 63) / 64 * 64};
}

// What activations may be stored as.
constexpr bool IsActivationType(Dtype dtype) { return dtype == Dtype::kF32 || dtype == Dtype::kBf16; }
// The one of two activation types that takes less.
constexpr Dtype NarrowerOf(Dtype a, Dtype b) { return SizeOf(b) < SizeOf(a) ? b : a; }

// What a job's matmuls compute in; everything else computes in f32.
// kBf16: operands rounded to bf16 (nearest even), products accumulated in f32.
enum class Precision : uint8_t { kF32, kBf16 };

// What a device stores activations as in a job of `precision`, unless the plan says otherwise: as its products
// read them.
constexpr Dtype ActivationsOf(Precision precision, bool computes_bf16) {
  return precision == Precision::kBf16 && computes_bf16 ? Dtype::kBf16 : Dtype::kF32;
}

}  // namespace medley
