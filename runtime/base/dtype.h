#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "runtime/base/bytes.h"

namespace medley {

// Element types of stored tensors.
enum class Dtype : uint8_t { kF32, kF64, kBf16, kI32, kF16 };
inline constexpr int kDtypes = 5;

constexpr Bytes SizeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return {8};
    case Dtype::kBf16:
    case Dtype::kF16:
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
    case Dtype::kF16:
      return "f16";
  }
  return "?";
}

// What a tensor takes in an arena, where each begins at a multiple of 64 bytes.
constexpr Bytes TensorBytes(int64_t elements, Dtype dtype) {
  return {(elements * SizeOf(dtype).value + 63) / 64 * 64};
}

// What activations may be stored as.
constexpr bool IsActivationType(Dtype dtype) {
  return dtype == Dtype::kF32 || dtype == Dtype::kBf16 || dtype == Dtype::kF16;
}
// The one of two activation types that takes less; of two that take as much, that with the larger range.
constexpr Dtype NarrowerOf(Dtype a, Dtype b) {
  return SizeOf(b) < SizeOf(a) || (SizeOf(b) == SizeOf(a) && a == Dtype::kF16) ? b : a;
}

// What a job's matmuls compute in; everything else computes in f32.
// kBf16, kF16: operands rounded to bf16 or f16 (nearest even), products accumulated in f32.
enum class Precision : uint8_t { kF32, kBf16, kF16 };
inline constexpr std::array kAllPrecisions = {Precision::kF32, Precision::kBf16, Precision::kF16};

constexpr std::string_view NameOf(Precision precision) {
  switch (precision) {
    case Precision::kF32:
      return "f32";
    case Precision::kBf16:
      return "bf16";
    case Precision::kF16:
      return "f16";
  }
  return "?";
}

// The type that operands of products are rounded to, and that a device which computes in `precision` stores
// activations as, unless the plan says otherwise.
constexpr Dtype TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kF32:
      break;
    case Precision::kBf16:
      return Dtype::kBf16;
    case Precision::kF16:
      return Dtype::kF16;
  }
  return Dtype::kF32;
}

// Which precisions beside f32 a device computes in.
struct ComputedPrecisions {
  bool bf16 = false, f16 = false;

  // What it computes a job of `precision` in: that, or f32.
  constexpr Precision For(Precision precision) const {
    return (precision == Precision::kBf16 && bf16) || (precision == Precision::kF16 && f16) ? precision
                                                                                            : Precision::kF32;
  }
  friend bool operator==(const ComputedPrecisions&, const ComputedPrecisions&) = default;
};

}  // namespace medley
