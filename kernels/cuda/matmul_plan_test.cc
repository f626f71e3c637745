#include "kernels/cuda/matmul_plan.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace medley {
namespace {

// What cuBLASLt promises for `seen`: result = op(first) op(second), all by columns.
std::vector<double> MultiplyByColumns(const ColumnMajorMatmul& seen, const std::vector<double>& first,
                                      const std::vector<double>& second) {
  const auto at = [](const ColumnMajorMatmul::Matrix& matrix, const std::vector<double>& values, int64_t row,
                     int64_t column) {
    if (matrix.transpose == Transpose::kYes) std::swap(row, column);
    return values.at(static_cast<size_t>(column * matrix.rows + row));
  };
  const int64_t depth = seen.first.transpose == Transpose::kYes ? seen.first.rows : seen.first.columns;
  std::vector<double> result(static_cast<size_t>(seen.result.rows * seen.result.columns));
  for (int64_t column = 0; column < seen.result.columns; ++column) {
    for (int64_t row = 0; row < seen.result.rows; ++row) {
      double sum = 0;
      for (int64_t i = 0; i < depth; ++i)
        sum += at(seen.first, first, row, i) * at(seen.second, second, i, column);
      result[static_cast<size_t>(column * seen.result.rows + row)] = sum;
    }
  }
  return result;
}

std::vector<double> MultiplyByRows(const MatmulArgs& args, const std::vector<double>& a,
                                   const std::vector<double>& b) {
  std::vector<double> c(static_cast<size_t>(args.m * args.n));
  for (int64_t row = 0; row < args.m; ++row) {
    for (int64_t column = 0; column < args.n; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < args.k; ++i) {
        const int64_t in_a = args.transpose_a == Transpose::kYes ? i * args.m + row : row * args.k + i;
        const int64_t in_b = args.transpose_b == Transpose::kYes ? column * args.k + i : i * args.n + column;
        sum += a[static_cast<size_t>(in_a)] * b[static_cast<size_t>(in_b)];
      }
      c[static_cast<size_t>(row * args.n + column)] = sum;
    }
  }
  return c;
}

TEST_CASE("a row-major product, seen by columns, is the same numbers in the same places") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{100}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto size = [&] { return static_cast<int64_t>(1 + random() % 7); };
  const auto turn = [&] { return random() % 2 == 0 ? Transpose::kNo : Transpose::kYes; };
  MatmulArgs args;
  args.m = size(), args.n = size(), args.k = size();
  args.transpose_a = turn(), args.transpose_b = turn();
  const auto values = [&](int64_t count) {
    std::vector<double> result(static_cast<size_t>(count));
    for (double& value : result) value = static_cast<double>(random() % 100);
    return result;
  };
  const std::vector<double> a = values(args.m * args.k), b = values(args.k * args.n);
  CHECK(MultiplyByColumns(ToColumnMajor(args), b, a) == MultiplyByRows(args, a, b));
}

TEST_CASE("keys of products that may need other kernels differ") {
  std::vector<MatmulKey> keys(14);
  keys[1].m = 1, keys[2].n = 1, keys[3].k = 1;
  keys[4].transpose_a = Transpose::kYes, keys[5].transpose_b = Transpose::kYes;
  keys[6].arithmetic = MatmulArithmetic::kBf16, keys[7].store = Store::kAdd, keys[8].has_bias = true;
  keys[9].epilogue = Epilogue::kGelu, keys[10].a_alignment_bytes = 16;
  keys[11].b_alignment_bytes = 16, keys[12].c_alignment_bytes = 16, keys[13].bias_alignment_bytes = 16;
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t j = 0; j < keys.size(); ++j) CHECK((keys[i] == keys[j]) == (i == j));
  }
}

TEST_CASE("an address is aligned to the largest power of two that divides it, up to 256") {
  CHECK(AlignmentOf(0) == 256);
  CHECK(AlignmentOf(0x7f0000000000) == 256);
  CHECK(AlignmentOf(0x7f0000000100) == 256);
  CHECK(AlignmentOf(0x7f0000000080) == 128);
  CHECK(AlignmentOf(0x7f0000000010) == 16);
  CHECK(AlignmentOf(0x7f000000000c) == 4);
  CHECK(AlignmentOf(0x7f000000000e) == 2);
}

TEST_CASE("cuBLASLt is asked for an epilogue only where it has it") {
  MatmulArgs args{.n = 16, .precision = Precision::kBf16, .epilogue = Epilogue::kGelu};
  CHECK(CanFuseEpilogue(args));
  args.precision = Precision::kF32;
  CHECK_FALSE(CanFuseEpilogue(args));
  args.epilogue = Epilogue::kNone;
  CHECK(CanFuseEpilogue(args));
  args = {.n = 12, .precision = Precision::kBf16, .epilogue = Epilogue::kGelu};
  CHECK_FALSE(CanFuseEpilogue(args));
}

}  // namespace
}  // namespace medley
