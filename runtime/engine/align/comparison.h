#pragma once
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"

namespace medley {

// Elements of one dtype in host memory, which the view does not own. bytes.size() is a multiple of the
// element's size; no alignment is asked for.
struct TensorView {
  Dtype dtype = Dtype::kF32;
  absl::Span<const std::byte> bytes;

  int64_t elements() const { return static_cast<int64_t>(bytes.size()) / SizeOf(dtype).value; }
  double operator[](int64_t index) const;
};

inline constexpr double kNotFinite = 1e300;

// How two tensors differ. No figure but worst_got and worst_want is ever NaN or above kNotFinite.
struct Difference {
  int64_t elements = 0;
  // Elements outside the tolerance. NaN equals NaN, an infinity equals itself; beside those, an element that
  // is not finite on one side is wrong.
  int64_t wrong = 0;
  int64_t got_not_finite = 0, want_not_finite = 0;
  double max_absolute = 0;  // of |got - want|, over elements that are finite on both sides
  // The greatest |got - want| / |want|, over those of them with |want| of at least a thousandth of the
  // largest: below, it says nothing.
  double max_relative = 0;
  // The cosine of the elements that are finite on both sides, as two vectors, in [-1, 1]. Both zero: 1. One
  // zero: 0.
  double cosine = 1;
  // The worst element by |got - want| / allowed; -1: there are none. An element that is not finite on one
  // side is worst of all, its ratio is kNotFinite. With tolerance 0 the ratio of a difference is kNotFinite
  // too.
  int64_t worst = -1;
  double worst_ratio = 0;
  double worst_got = 0, worst_want = 0;  // as they are, NaN included

  bool within() const { return wrong == 0; }
};

// Holds `got` against `want` by the rule of tolerance.h. Both have the same number of elements; dtypes may
// differ.
Difference Compare(TensorView got, TensorView want, double tolerance);

}  // namespace medley
