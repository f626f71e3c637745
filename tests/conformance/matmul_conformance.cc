#include <catch2/catch.hpp>

#include "tests/conformance/arena.h"
#include "tests/conformance/device_under_test.h"

namespace medley {
namespace {

struct Shape {
  int64_t m, n, k;
};

// One, primes, vector widths and one more or less, zero, and one that a blocked matmul cuts in each
// direction.
const std::vector<Shape> kShapes = {{1, 1, 1},    {1, 17, 5},     {7, 1, 13},    {5, 7, 1}, {16, 16, 16},
                                    {17, 31, 15}, {33, 64, 63},   {0, 4, 4},     {4, 0, 4}, {4, 4, 0},
                                    {2, 769, 3},  {130, 97, 257}, {61, 191, 401}};

TEST_CASE("Matmul agrees with the reference for every transpose, store, bias and precision",
          "[conformance]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const Transpose transpose_a = GENERATE(Transpose::kNo, Transpose::kYes);
  const Transpose transpose_b = GENERATE(Transpose::kNo, Transpose::kYes);
  const Store store = GENERATE(Store::kOverwrite, Store::kAdd);
  const bool biased = GENERATE(false, true);
  const Precision precision = GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16);
  const Constness constness = GENERATE(Constness::kVaries, Constness::kParameter);
  const uint64_t seed = shape.m * 1000003 + shape.n * 1009 + shape.k;
  CAPTURE(seed, shape.m, shape.n, shape.k, transpose_a, transpose_b, store, biased, precision, constness);
  std::mt19937_64 random(seed);
  const Values a = RandomValues(random, shape.m * shape.k), b = RandomValues(random, shape.k * shape.n);
  const Values bias = RandomValues(random, shape.n), before = RandomValues(random, shape.m * shape.n);
  CompareWithReference(
      [&](Arena& arena) {
        const Slice c = store == Store::kAdd ? arena.Input(before) : arena.Output(shape.m * shape.n);
        MatmulArgs args{.a = arena.Input(a),
                        .b = arena.Input(b),
                        .c = c,
                        .m = shape.m,
                        .n = shape.n,
                        .k = shape.k,
                        .transpose_a = transpose_a,
                        .transpose_b = transpose_b,
                        .store = store,
                        .precision = precision,
                        .b_constness = constness};
        if (biased) args.bias = arena.Input(bias);
        arena.Run(args);
        return std::vector<Result>{{"c", arena.Read(c), Arithmetic::kSum}};
      },
      precision);
}

TEST_CASE("Matmul's epilogues agree with the reference", "[conformance]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const Transpose transpose = GENERATE(Transpose::kNo, Transpose::kYes);
  const Epilogue epilogue = GENERATE(Epilogue::kGelu, Epilogue::kGeluGradient);
  const bool biased = GENERATE(false, true);
  const Precision precision = GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16);
  const uint64_t seed = shape.m * 1000003 + shape.n * 1009 + shape.k;
  CAPTURE(seed, shape.m, shape.n, shape.k, transpose, epilogue, biased, precision);
  std::mt19937_64 random(seed);
  const Values a = RandomValues(random, shape.m * shape.k), b = RandomValues(random, shape.k * shape.n);
  const Values bias = RandomValues(random, shape.n), before = RandomValues(random, shape.m * shape.n);
  CompareWithReference(
      [&](Arena& arena) {
        const Slice c = arena.Output(shape.m * shape.n);
        const Slice pre_activation =
            epilogue == Epilogue::kGelu ? arena.Output(shape.m * shape.n) : arena.Input(before);
        MatmulArgs args{.a = arena.Input(a),
                        .b = arena.Input(b),
                        .c = c,
                        .m = shape.m,
                        .n = shape.n,
                        .k = shape.k,
                        .transpose_b = transpose,
                        .precision = precision,
                        .b_constness = Constness::kParameter,
                        .epilogue = epilogue,
                        .pre_activation = pre_activation};
        if (biased) args.bias = arena.Input(bias);
        arena.Run(args);
        if (epilogue == Epilogue::kGeluGradient) CHECK(arena.Read(pre_activation) == before);
        return std::vector<Result>{{"c", arena.Read(c), Arithmetic::kChain},
                                   {"pre_activation", arena.Read(pre_activation), Arithmetic::kSum}};
      },
      precision);
}

TEST_CASE("bf16 operands are rounded to nearest even where the device computes bf16", "[conformance]") {
  // 1 + 2^-8 lies half-way between two bf16 numbers and goes to 1; 1 + 3 * 2^-8 goes to 1 + 2^-6.
  const Values a = {1.0f + 0x1p-8f, 1.0f + 0x3p-8f}, rounded = {1.0f, 1.0f + 0x1p-6f};
  const auto product = [&](Arena& arena) {
    const Slice c = arena.Output(2);
    arena.Run(MatmulArgs{.a = arena.Input(a),
                         .b = arena.Input(Values{1.0f}),
                         .c = c,
                         .m = 2,
                         .n = 1,
                         .k = 1,
                         .precision = Precision::kBf16});
    return arena.Read(c);
  };
  Arena reference(ReferenceDevice());
  CHECK(product(reference) == rounded);
  OnDeviceUnderTest(
      [&](Arena& arena) { CHECK(product(arena) == (DeviceUnderTest()->computes.bf16 ? rounded : a)); });
}

TEST_CASE("a product in f32 keeps the bits that narrower formats drop", "[conformance]") {
  // 1 + 2^-12: tf32 and bf16 have 10 and 7 bits after the point.
  OnDeviceUnderTest([&](Arena& arena) {
    const Slice c = arena.Output(1);
    const Values a = {1.0f + 0x1p-12f};
    arena.Run(
        MatmulArgs{.a = arena.Input(a), .b = arena.Input(Values{3.0f}), .c = c, .m = 1, .n = 1, .k = 1});
    CHECK(arena.Read(c) == Values{3.0f + 0x3p-12f});
  });
}

TEST_CASE("a parameter's new values are used after ParametersChanged", "[conformance]") {
  const Precision precision = GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16);
  CAPTURE(precision);
  OnDeviceUnderTest([&](Arena& arena) {
    const Slice b = arena.Input(Values{2.0f}), c = arena.Output(1);
    MatmulArgs args{.a = arena.Input(Values{3.0f}),
                    .b = b,
                    .c = c,
                    .m = 1,
                    .n = 1,
                    .k = 1,
                    .precision = precision,
                    .b_constness = Constness::kParameter};
    arena.Run(args);
    CHECK(arena.Read(c) == Values{6.0f});
    arena.Run(FillArgs{.x = b, .elements = 1, .value = 5.0f});
    arena.ops().ParametersChanged();
    arena.Run(args);
    CHECK(arena.Read(c) == Values{15.0f});
  });
}

}  // namespace
}  // namespace medley
