#include "kernels/cpu/gemm.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/cpu/cpu_variant.h"
#include "kernels/host/host_queue.h"
#include "runtime/base/bf16.h"
#include "tests/skipped.h"

namespace medley {
namespace {

std::vector<float> Random(std::mt19937_64& random, int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// oneDNN multiplies bf16 on any AVX-512 processor, slowly without AMX: the conversion, the layouts and the
// kept copies can be tested where the amx device cannot be opened.
bool Possible() {
  if (CpuVariantObjection(CpuVariant::kAvx512).empty()) return true;
  PartlySkipped("bf16 products of oneDNN", CpuVariantObjection(CpuVariant::kAvx512));
  return false;
}

TEST_CASE("a native bf16 product is that of the rounded operands") {
  if (!Possible()) return;
  const int64_t m = GENERATE(1, 5, 33), n = GENERATE(1, 17, 64), k = GENERATE(1, 7, 96);
  const Transpose transpose_a = GENERATE(Transpose::kNo, Transpose::kYes);
  const Transpose transpose_b = GENERATE(Transpose::kNo, Transpose::kYes);
  const Store store = GENERATE(Store::kOverwrite, Store::kAdd);
  const uint64_t seed = m * 10007 + n * 101 + k;
  CAPTURE(seed, m, n, k, transpose_a, transpose_b, store);
  std::mt19937_64 random(seed);
  std::vector<float> a = Random(random, m * k), b = Random(random, k * n);
  std::vector<float> c(m * n, store == Store::kAdd ? 2.0f : std::numeric_limits<float>::quiet_NaN());
  HostQueue queue("host", GiB(1));
  Gemm gemm(queue, kVectorKernelsAvx512, Bf16Matmul::kNative);
  gemm.Multiply({.m = m,
                 .n = n,
                 .k = k,
                 .a = {a.data(), Dtype::kF32, transpose_a},
                 .b = {b.data(), Dtype::kF32, transpose_b},
                 .c = {c.data()},
                 .store = store},
                Precision::kBf16, Constness::kParameter);
  int wrong = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double want = store == Store::kAdd ? 2.0 : 0.0;
      for (int64_t l = 0; l < k; ++l) {
        want +=
            static_cast<double>(RoundToBf16(transpose_a == Transpose::kYes ? a[l * m + i] : a[i * k + l])) *
            RoundToBf16(transpose_b == Transpose::kYes ? b[j * k + l] : b[l * n + j]);
      }
      // F32 accumulation of 96 products.
      wrong += !(std::abs(c[i * n + j] - want) <= 1e-5 * (1 + std::abs(want)));
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("the kept copy of a parameter is used until ParametersChanged, and counted") {
  if (!Possible()) return;
  std::vector<float> a = {3.0f}, b = {2.0f}, c(1);
  HostQueue queue("host", GiB(1));
  Gemm gemm(queue, kVectorKernelsAvx512, Bf16Matmul::kNative);
  CHECK(gemm.copies() == Bytes{0});
  const auto multiply = [&](Constness constness) {
    gemm.Multiply({.m = 1, .n = 1, .k = 1, .a = {a.data()}, .b = {b.data()}, .c = {c.data()}},
                  Precision::kBf16, constness);
    return c[0];
  };
  CHECK(multiply(Constness::kParameter) == 6.0f);
  CHECK(gemm.copies() == Bytes{2});
  CHECK(gemm.scratch() == Bytes{2});
  CHECK(queue.allocated() == Bytes{4});
  b[0] = 5.0f;
  CHECK(multiply(Constness::kParameter) == 6.0f);
  CHECK(multiply(Constness::kVaries) == 15.0f);
  gemm.ParametersChanged();
  CHECK(multiply(Constness::kParameter) == 15.0f);
  gemm.ForgetParameters();
  CHECK(gemm.copies() == Bytes{0});
  b[0] = 7.0f;
  CHECK(multiply(Constness::kParameter) == 21.0f);
}

TEST_CASE("a row that was rounded in place is its rounded values, from where it began") {
  const int64_t rows = 3, columns = GENERATE(1, 5, 3000);
  CAPTURE(columns);
  std::mt19937_64 random(columns);
  const std::vector<float> before = Random(random, rows * columns);
  std::vector<float> values = before;
  HostQueue queue("host", GiB(1));
  Gemm gemm(queue, VectorKernelsFor(*ParseCpuVariant("sse41")), Bf16Matmul::kNative);
  const TypedMatrix matrix = gemm.RoundInPlace(values.data(), rows, columns);
  CHECK(matrix.dtype == Dtype::kBf16);
  int wrong = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const uint16_t got = static_cast<const uint16_t*>(matrix.data)[r * matrix.stride + c];
      wrong += got != ToBf16(before[r * columns + c]);
    }
  }
  CHECK(wrong == 0);
  CHECK(queue.peak_allocated() == Bytes{0});
}

TEST_CASE("an operand whose rows lie apart is multiplied as it would be side by side, its transpose too") {
  if (!Possible()) return;
  const int64_t m = 5, n = 17, k = 33;
  const Transpose transpose = GENERATE(Transpose::kNo, Transpose::kYes);
  CAPTURE(transpose);
  std::mt19937_64 random(1);
  std::vector<float> a = Random(random, m * k), b = Random(random, k * n), want(m * n), got(m * n);
  HostQueue queue("host", GiB(1));
  Gemm gemm(queue, kVectorKernelsAvx512, Bf16Matmul::kNative);
  const auto multiply = [&](TypedMatrix of, std::vector<float>& c) {
    of.transpose = transpose;
    gemm.Multiply({.m = m, .n = n, .k = k, .a = of, .b = {b.data()}, .c = {c.data()}}, Precision::kBf16,
                  Constness::kVaries);
  };
  multiply({a.data()}, want);
  const int64_t rows = transpose == Transpose::kYes ? k : m;
  multiply(gemm.RoundInPlace(a.data(), rows, m * k / rows), got);
  CHECK(got == want);
}

TEST_CASE("ToBf16 of every instruction set rounds to nearest even and keeps NaN and infinity") {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f + 0x1p-8f,
                               1.0f + 0x3p-8f,
                               -1.0f - 0x1.8p-8f,
                               0x1.fffffep127f,
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN(),
                               1e-40f};
  std::mt19937_64 random(3);
  for (float value : Random(random, 1000)) values.push_back(value);
  for (const std::string& name : CpuVariants()) {
    CAPTURE(name);
    std::vector<uint16_t> got(values.size());
    VectorKernelsFor(*ParseCpuVariant(name)).to_bf16(values.data(), got.data(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      CAPTURE(values[i]);
      CHECK(got[i] == ToBf16(values[i]));
    }
  }
  CHECK(RoundToBf16(1.0f + 0x1p-8f) == 1.0f);
  CHECK(RoundToBf16(1.0f + 0x3p-8f) == 1.0f + 0x1p-6f);
  CHECK(std::isinf(RoundToBf16(0x1.fffffep127f)));
  CHECK(std::isnan(RoundToBf16(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace medley
