#include "runtime/engine/align/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/narrow.h"
#include "runtime/engine/align/tolerance.h"

namespace medley {
namespace {

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

bool BothFinite(double a, double b) { return std::isfinite(a) && std::isfinite(b); }

// What |want| is held against in the elements' tolerance.
double LargestFinite(TensorView tensor) {
  double largest = 0;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    const double value = std::abs(tensor[i]);
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  return largest;
}

// How many times what is allowed the two are apart.
double RatioOf(double got, double want, double allowed) {
  if (std::isnan(got) && std::isnan(want)) return 0;
  if (got == want) return 0;
  if (!BothFinite(got, want)) return kNotFinite;
  const double error = std::min(std::abs(got - want), kNotFinite);
  if (allowed == 0) return kNotFinite;
  return std::min(error / allowed, kNotFinite);
}

// Scaled so that no square leaves f64's range.
struct CosineSums {
  double scale_got, scale_want;
  double dot = 0, got_squared = 0, want_squared = 0;

  void Add(double got, double want) {
    got /= scale_got;
    want /= scale_want;
    dot += got * want;
    got_squared += got * got;
    want_squared += want * want;
  }
  double Cosine() const {
    if (got_squared == 0 && want_squared == 0) return 1;
    if (got_squared == 0 || want_squared == 0) return 0;
    return std::clamp(dot / (std::sqrt(got_squared) * std::sqrt(want_squared)), -1.0, 1.0);
  }
};

}  // namespace

double TensorView::operator[](int64_t index) const {
  const std::byte* at = bytes.data() + index * SizeOf(dtype).value;
  switch (dtype) {
    case Dtype::kF32:
      return Load<float>(at);
    case Dtype::kF64:
      return Load<double>(at);
    case Dtype::kI32:
      return Load<int32_t>(at);
    case Dtype::kBf16:
    case Dtype::kF16:
      return FromNarrow(Load<uint16_t>(at), dtype);
  }
  return 0;
}

Difference Compare(TensorView got, TensorView want, double tolerance) {
  Difference difference{.elements = want.elements()};
  const double largest = LargestFinite(want), largest_got = LargestFinite(got);
  CosineSums sums{.scale_got = largest_got > 0 ? largest_got : 1, .scale_want = largest > 0 ? largest : 1};
  for (int64_t i = 0; i < difference.elements; ++i) {
    const double g = got[i], w = want[i];
    difference.got_not_finite += !std::isfinite(g);
    difference.want_not_finite += !std::isfinite(w);
    double ratio = RatioOf(g, w, tolerance * std::abs(w) + tolerance * largest);
    if (BothFinite(g, w)) {
      const double error = std::min(std::abs(g - w), kNotFinite);
      difference.max_absolute = std::max(difference.max_absolute, error);
      if (std::abs(w) > 0 && std::abs(w) >= 1e-3 * largest) {
        difference.max_relative =
            std::max(difference.max_relative, std::min(error / std::abs(w), kNotFinite));
      }
      sums.Add(g, w);
      if (tolerance > 0 && error < kNothing) ratio = 0;
    }
    difference.wrong += ratio > 1;
    if (ratio > difference.worst_ratio || difference.worst < 0) {
      difference.worst = i;
      difference.worst_ratio = ratio;
      difference.worst_got = g;
      difference.worst_want = w;
    }
  }
  // The sums' own roundings are none of theirs.
  difference.cosine = difference.max_absolute == 0 ? 1 : sums.Cosine();
  return difference;
}

}  // namespace medley
