#include <catch2/catch.hpp>

#include "tests/conformance/arena.h"

namespace medley {
namespace {

struct Shape {
  int64_t rows, columns, vocabulary;
};
const std::vector<Shape> kShapes = {{1, 1, 1},     {1, 5, 2}, {3, 7, 17},   {16, 16, 16},
                                    {13, 33, 101}, {0, 4, 5}, {29, 5, 5003}};

TEST_CASE("HeadLoss agrees with the reference, with and without gradients", "[conformance]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const Precision precision = GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16);
  const float gradient_scale = GENERATE(1.0f, 0.37f);
  const uint64_t seed = shape.rows * 1009 + shape.vocabulary;
  CAPTURE(seed, shape.rows, shape.columns, shape.vocabulary, precision, gradient_scale);
  std::mt19937_64 random(seed);
  const Values x = RandomValues(random, shape.rows * shape.columns);
  const Values weight = RandomValues(random, shape.vocabulary * shape.columns);
  const Values before = RandomValues(random, shape.vocabulary * shape.columns);
  const std::vector<int32_t> targets = RandomIntegers(random, shape.rows, shape.vocabulary);
  CompareWithReference(
      [&](Arena& arena) {
        const Slice dx = arena.Output(shape.rows * shape.columns), dweight = arena.Input(before);
        const Slice loss = arena.Scalar(0.25), loss_only = arena.Scalar(0.25);
        HeadLossArgs args{.x = arena.Input(x),
                          .weight = arena.Input(weight),
                          .targets = arena.Input(targets),
                          .loss_sum = loss_only,
                          .rows = shape.rows,
                          .columns = shape.columns,
                          .vocabulary = shape.vocabulary,
                          .gradient_scale = gradient_scale,
                          .precision = precision};
        arena.Run(args);
        args.loss_sum = loss;
        args.dx = dx;
        args.dweight = dweight;
        arena.Run(args);
        const auto as_values = [&](const Slice& scalar) {
          return Values{static_cast<float>(arena.ReadScalar(scalar))};
        };
        return std::vector<Result>{{"loss", as_values(loss), Arithmetic::kChain},
                                   {"loss only", as_values(loss_only), Arithmetic::kChain},
                                   {"dx", arena.Read(dx), Arithmetic::kChain},
                                   {"dweight", arena.Read(dweight), Arithmetic::kChain}};
      },
      precision);
}

TEST_CASE("HeadLoss of more logits than a device keeps at once agrees with the reference", "[conformance]") {
  const int64_t rows = 3407, columns = 1, vocabulary = 5003;  // 65 MiB
  const uint64_t seed = 3407;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Values x = RandomValues(random, rows * columns), weight = RandomValues(random, vocabulary * columns);
  const std::vector<int32_t> targets = RandomIntegers(random, rows, vocabulary);
  CompareWithReference([&](Arena& arena) {
    const Slice loss = arena.Scalar(0), dx = arena.Output(rows * columns);
    const Slice dweight = arena.Input(Values(vocabulary * columns));
    arena.Run(HeadLossArgs{.x = arena.Input(x),
                           .weight = arena.Input(weight),
                           .targets = arena.Input(targets),
                           .loss_sum = loss,
                           .dx = dx,
                           .dweight = dweight,
                           .rows = rows,
                           .columns = columns,
                           .vocabulary = vocabulary});
    return std::vector<Result>{{"loss", {static_cast<float>(arena.ReadScalar(loss))}, Arithmetic::kChain},
                               {"dx", arena.Read(dx), Arithmetic::kChain},
                               {"dweight", arena.Read(dweight), Arithmetic::kChain}};
  });
}

TEST_CASE("HeadLoss of logits far apart neither overflows nor loses the target", "[conformance]") {
  // Logits 0, 300 and -300 for a target each: losses 300, 0 and 600.
  const Values x = {300.0f, 300.0f, 300.0f}, weight = {0.0f, 1.0f, -1.0f};
  CompareWithReference([&](Arena& arena) {
    const Slice loss = arena.Scalar(0), dx = arena.Output(3), dweight = arena.Input(Values(3));
    arena.Run(HeadLossArgs{.x = arena.Input(x),
                           .weight = arena.Input(weight),
                           .targets = arena.Input(std::vector<int32_t>{0, 1, 2}),
                           .loss_sum = loss,
                           .dx = dx,
                           .dweight = dweight,
                           .rows = 3,
                           .columns = 1,
                           .vocabulary = 3});
    CHECK(arena.ReadScalar(loss) == Approx(900.0));
    return std::vector<Result>{{"dx", arena.Read(dx), Arithmetic::kChain},
                               {"dweight", arena.Read(dweight), Arithmetic::kChain}};
  });
}

}  // namespace
}  // namespace medley
