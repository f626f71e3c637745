#include "runtime/engine/align/comparison.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "runtime/engine/align/tolerance.h"

namespace medley {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
TensorView View(Dtype dtype, const std::vector<T>& values) {
  return {dtype, {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)}};
}

Difference CompareFloats(const std::vector<float>& got, const std::vector<float>& want, double tolerance) {
  return Compare(View(Dtype::kF32, got), View(Dtype::kF32, want), tolerance);
}

TEST_CASE("figures of a difference are those worked out by hand") {
  const Difference d = CompareFloats({1, 2.5f, -4}, {1, 2, -4}, 0.01);
  CHECK(d.elements == 3);
  CHECK(d.max_absolute == 0.5);
  CHECK(d.max_relative == 0.25);
  // (1 + 5 + 16) / sqrt(23.25 * 21)
  CHECK(d.cosine == Approx(22 / std::sqrt(23.25 * 21)));
  CHECK(d.wrong == 1);
  CHECK(d.worst == 1);
  CHECK(d.worst_got == 2.5);
  CHECK(d.worst_want == 2);
  CHECK(d.worst_ratio == Approx(0.5 / (0.01 * (2 + 4))));
  CHECK_FALSE(d.within());
}

TEST_CASE("an element is held to its own size and to the largest of its tensor") {
  // Allowed at the small element: 0.01 * (0 + 100) = 1.
  CHECK(CompareFloats({0.9f, 100}, {0, 100}, 0.01).within());
  CHECK_FALSE(CompareFloats({1.1f, 100}, {0, 100}, 0.01).within());
  // At the large one: 0.01 * (100 + 100) = 2.
  CHECK(CompareFloats({0, 101.9f}, {0, 100}, 0.01).within());
  CHECK_FALSE(CompareFloats({0, 102.1f}, {0, 100}, 0.01).within());
}

TEST_CASE("with no tolerance every difference is wrong, and none is right") {
  CHECK(CompareFloats({1, -0.0f}, {1, 0.0f}, 0).within());
  const Difference d = CompareFloats({1, std::nextafterf(2, 3)}, {1, 2}, 0);
  CHECK(d.wrong == 1);
  CHECK(d.worst == 1);
  CHECK(d.worst_ratio == kNotFinite);
}

TEST_CASE("differences below what f32 can hold are nothing, unless exactness is asked for") {
  CHECK(CompareFloats({1e-31f}, {0}, 1e-6).within());
  CHECK_FALSE(CompareFloats({1e-29f}, {0}, 1e-6).within());
  CHECK_FALSE(CompareFloats({1e-31f}, {0}, 0).within());
}

TEST_CASE("NaN equals NaN, infinity itself, and neither equals a number") {
  const float infinity = std::numeric_limits<float>::infinity();
  const Difference same = CompareFloats({kNan, infinity, -infinity, 1}, {kNan, infinity, -infinity, 1}, 1e-6);
  CHECK(same.within());
  CHECK(same.got_not_finite == 3);
  CHECK(same.want_not_finite == 3);
  CHECK(same.cosine == 1);
  CHECK(same.max_absolute == 0);

  struct Case {
    float got, want;
  };
  const auto c = GENERATE_COPY(values<Case>(
      {{kNan, 1}, {1, kNan}, {infinity, 1}, {1, infinity}, {infinity, -infinity}, {kNan, infinity}}));
  CAPTURE(c.got, c.want);
  const Difference d = CompareFloats({3, c.got, 3}, {3, c.want, 3}, 1e3);
  CHECK(d.wrong == 1);
  CHECK(d.worst == 1);
  CHECK(d.worst_ratio == kNotFinite);
  CHECK(d.cosine == Approx(1));
}

TEST_CASE("the cosine of two zero vectors is 1, of one zero vector 0, of opposite ones -1") {
  CHECK(CompareFloats({0, 0}, {0, 0}, 1e-6).cosine == 1);
  CHECK(CompareFloats({0, 0}, {1, 2}, 1e-6).cosine == 0);
  CHECK(CompareFloats({1, 2}, {0, 0}, 1e-6).cosine == 0);
  CHECK(CompareFloats({-1, -2}, {1, 2}, 1e-6).cosine == Approx(-1));
  CHECK(CompareFloats({1, 0}, {0, 1}, 1e-6).cosine == 0);
  CHECK(CompareFloats({}, {}, 1e-6).cosine == 1);
}

TEST_CASE("empty tensors have no worst element and are within any tolerance") {
  const Difference d = CompareFloats({}, {}, 0);
  CHECK(d.elements == 0);
  CHECK(d.worst == -1);
  CHECK(d.within());
}

TEST_CASE("the relative difference passes over elements too small to say anything") {
  // 1e-6 against 0 and against 1e-7 are noise beside 1000; the 1001 is not.
  const Difference d = CompareFloats({1e-6f, 1e-6f, 1001}, {0, 1e-7f, 1000}, 1e-2);
  CHECK(d.max_relative == Approx(1e-3));
}

TEST_CASE("every dtype is read as the number it stands for") {
  CHECK(
      Compare(View(Dtype::kF64, std::vector<double>{1e300}), View(Dtype::kF64, std::vector<double>{1e300}), 0)
          .within());
  CHECK(Compare(View(Dtype::kI32, std::vector<int32_t>{-7}), View(Dtype::kF32, std::vector<float>{-7}), 0)
            .within());
  // 0x3fc0 is 1.5 in bf16.
  CHECK(Compare(View(Dtype::kBf16, std::vector<uint16_t>{0x3fc0, 0xc000}),
                View(Dtype::kF32, std::vector<float>{1.5f, -2}), 0)
            .within());
}

TEST_CASE("no figure is NaN, whatever is compared", "[property]") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const double kept[] = {0.0,      -0.0,      1.0,        -1.0, 1e-320, 1e308,
                         -1.7e308, kInfinity, -kInfinity, kNan, 3e-39,  1e-160};
  std::vector<double> got(7), want(7);
  for (double& value : got) value = kept[random() % std::size(kept)];
  for (double& value : want) value = kept[random() % std::size(kept)];
  const double tolerance = random() % 2 == 0 ? 0 : 1e-6;
  const Difference d = Compare(View(Dtype::kF64, got), View(Dtype::kF64, want), tolerance);
  for (const double figure : {d.max_absolute, d.max_relative, d.cosine, d.worst_ratio}) {
    CHECK_FALSE(std::isnan(figure));
  }
  CHECK(std::abs(d.cosine) <= 1);
  CHECK(d.within() == (d.worst_ratio <= 1));
  const Difference itself = Compare(View(Dtype::kF64, got), View(Dtype::kF64, got), tolerance);
  CHECK(itself.within());
  CHECK(itself.max_absolute == 0);
}

TEST_CASE("bf16 allows more than f32 where an op multiplies, and the same where it copies") {
  for (const Arithmetic arithmetic : {Arithmetic::kSum, Arithmetic::kChain}) {
    CHECK(ToleranceOf(arithmetic, Precision::kBf16) > 100 * ToleranceOf(arithmetic, Precision::kF32));
  }
  CHECK(ToleranceOf(Arithmetic::kExact, Precision::kBf16) == 0);
}

}  // namespace
}  // namespace medley
