#include <catch2/catch.hpp>
#include <cmath>

#include "tests/conformance/arena.h"

namespace medley {
namespace {

struct Shape {
  int64_t rows, columns;
};
// Not one or two columns: dx is then the difference of equal numbers, and all rounding.
const std::vector<Shape> kShapes = {{1, 3},   {3, 5}, {2, 7},    {5, 16},  {4, 31},
                                    {19, 33}, {0, 8}, {37, 768}, {64, 509}};

TEST_CASE("LayerNorm agrees with the reference, forward and backward", "[conformance]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const Store store = GENERATE(Store::kOverwrite, Store::kAdd);
  const float offset = GENERATE(0.0f, 3.0f);  // a mean that is not small against the deviation
  const uint64_t seed = shape.rows * 10007 + shape.columns;
  CAPTURE(seed, shape.rows, shape.columns, store, offset);
  std::mt19937_64 random(seed);
  const int64_t elements = shape.rows * shape.columns;
  Values x = RandomValues(random, elements);
  for (float& value : x) value += offset;
  const Values dy = RandomValues(random, elements), before = RandomValues(random, elements);
  const Values gamma = RandomValues(random, shape.columns), beta = RandomValues(random, shape.columns);
  const Values dgamma = RandomValues(random, shape.columns), dbeta = RandomValues(random, shape.columns);
  CompareWithReference([&](Arena& arena) {
    const Slice y = arena.Output(elements), mean = arena.Output(shape.rows), rstd = arena.Output(shape.rows);
    const Slice at_x = arena.Input(x), at_gamma = arena.Input(gamma);
    arena.Run(LayerNormForwardArgs{.x = at_x,
                                   .gamma = at_gamma,
                                   .beta = arena.Input(beta),
                                   .y = y,
                                   .mean = mean,
                                   .rstd = rstd,
                                   .rows = shape.rows,
                                   .columns = shape.columns});
    const Slice dx = store == Store::kAdd ? arena.Input(before) : arena.Output(elements);
    const Slice at_dgamma = arena.Input(dgamma), at_dbeta = arena.Input(dbeta);
    arena.Run(LayerNormBackwardArgs{.dy = arena.Input(dy),
                                    .x = at_x,
                                    .gamma = at_gamma,
                                    .mean = mean,
                                    .rstd = rstd,
                                    .dx = dx,
                                    .dgamma = at_dgamma,
                                    .dbeta = at_dbeta,
                                    .rows = shape.rows,
                                    .columns = shape.columns,
                                    .store_dx = store});
    return std::vector<Result>{{"y", arena.Read(y), Arithmetic::kChain},
                               {"mean", arena.Read(mean), Arithmetic::kSum},
                               {"rstd", arena.Read(rstd), Arithmetic::kSum},
                               {"dx", arena.Read(dx), Arithmetic::kChain},
                               {"dgamma", arena.Read(at_dgamma), Arithmetic::kChain},
                               {"dbeta", arena.Read(at_dbeta), Arithmetic::kSum}};
  });
}

TEST_CASE("LayerNorm of one column is beta, and its gradient next to nothing", "[conformance]") {
  CompareWithReference([&](Arena& arena) {
    const Slice x = arena.Input(Values{4.0f, -3.0f}), gamma = arena.Input(Values{1.3f}), y = arena.Output(2);
    const Slice mean = arena.Output(2), rstd = arena.Output(2), dx = arena.Output(2);
    arena.Run(LayerNormForwardArgs{.x = x,
                                   .gamma = gamma,
                                   .beta = arena.Input(Values{0.5f}),
                                   .y = y,
                                   .mean = mean,
                                   .rstd = rstd,
                                   .rows = 2,
                                   .columns = 1});
    arena.Run(LayerNormBackwardArgs{.dy = arena.Input(Values{0.7f, 0.1f}),
                                    .x = x,
                                    .gamma = gamma,
                                    .mean = mean,
                                    .rstd = rstd,
                                    .dx = dx,
                                    .dgamma = arena.Input(Values(1)),
                                    .dbeta = arena.Input(Values(1)),
                                    .rows = 2,
                                    .columns = 1});
    CHECK(arena.Read(y) == Values{0.5f, 0.5f});
    // rstd is 316 here and multiplies what rounding left of zero.
    for (float value : arena.Read(dx)) CHECK(value == Approx(0).margin(1e-4));
    return std::vector<Result>{{"rstd", arena.Read(rstd), Arithmetic::kPointwise}};
  });
}

TEST_CASE("LayerNormBackward may write dx over dy", "[conformance]") {
  const uint64_t seed = 5;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t rows = 9, columns = 45;
  const Values x = RandomValues(random, rows * columns), dy = RandomValues(random, rows * columns);
  const Values gamma = RandomValues(random, columns), zero(columns);
  const Values mean = RandomValues(random, rows), rstd(rows, 0.7f);
  CompareWithReference([&](Arena& arena) {
    const Slice both = arena.Input(dy);
    arena.Run(LayerNormBackwardArgs{.dy = both,
                                    .x = arena.Input(x),
                                    .gamma = arena.Input(gamma),
                                    .mean = arena.Input(mean),
                                    .rstd = arena.Input(rstd),
                                    .dx = both,
                                    .dgamma = arena.Input(zero),
                                    .dbeta = arena.Input(zero),
                                    .rows = rows,
                                    .columns = columns});
    return std::vector<Result>{{"dx", arena.Read(both), Arithmetic::kChain}};
  });
}

TEST_CASE("RMSNorm agrees with the reference, forward and backward", "[conformance]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const Store store = GENERATE(Store::kOverwrite, Store::kAdd);
  const float deviation = GENERATE(1.0f, 1e-3f);  // the latter's mean square is below epsilon
  const uint64_t seed = shape.rows * 10007 + shape.columns;
  CAPTURE(seed, shape.rows, shape.columns, store, deviation);
  std::mt19937_64 random(seed);
  const int64_t elements = shape.rows * shape.columns;
  const Values x = RandomValues(random, elements, deviation);
  const Values dy = RandomValues(random, elements), before = RandomValues(random, elements);
  const Values gamma = RandomValues(random, shape.columns), dgamma = RandomValues(random, shape.columns);
  CompareWithReference([&](Arena& arena) {
    const Slice y = arena.Output(elements), rstd = arena.Output(shape.rows);
    const Slice at_x = arena.Input(x), at_gamma = arena.Input(gamma);
    arena.Run(RmsNormForwardArgs{.x = at_x,
                                 .gamma = at_gamma,
                                 .y = y,
                                 .rstd = rstd,
                                 .rows = shape.rows,
                                 .columns = shape.columns,
                                 .epsilon = 2e-5f});
    const Slice dx = store == Store::kAdd ? arena.Input(before) : arena.Output(elements);
    const Slice at_dgamma = arena.Input(dgamma), at_dy = arena.Input(dy), over_dy = arena.Input(dy);
    RmsNormBackwardArgs backward{.dy = at_dy,
                                 .x = at_x,
                                 .gamma = at_gamma,
                                 .rstd = rstd,
                                 .dx = dx,
                                 .dgamma = at_dgamma,
                                 .rows = shape.rows,
                                 .columns = shape.columns,
                                 .store_dx = store};
    arena.Run(backward);
    const Values gradient = arena.Read(at_dgamma);
    if (store == Store::kOverwrite) {
      backward.dy = backward.dx = over_dy;
      arena.Run(backward);
      CHECK(arena.Read(over_dy) == arena.Read(dx));
    }
    return std::vector<Result>{{"y", arena.Read(y), Arithmetic::kChain},
                               {"rstd", arena.Read(rstd), Arithmetic::kSum},
                               {"dx", arena.Read(dx), Arithmetic::kChain},
                               {"dgamma", gradient, Arithmetic::kChain}};
  });
}

TEST_CASE("RMSNorm of one column is the sign times gamma", "[conformance]") {
  CompareWithReference([&](Arena& arena) {
    const Slice x = arena.Input(Values{4.0f, -3.0f, 0.0f}), y = arena.Output(3), rstd = arena.Output(3);
    arena.Run(RmsNormForwardArgs{.x = x,
                                 .gamma = arena.Input(Values{1.5f}),
                                 .y = y,
                                 .rstd = rstd,
                                 .rows = 3,
                                 .columns = 1,
                                 .epsilon = 0});
    const Values got = arena.Read(y);
    CHECK(got[0] == Approx(1.5f));
    CHECK(got[1] == Approx(-1.5f));
    CHECK(std::isnan(got[2]));  // 0 / 0 without epsilon
    return std::vector<Result>{};
  });
}

}  // namespace
}  // namespace medley
