#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/conformance/arena.h"

namespace medley {
namespace {

// Around vector widths, around a chunk, and none.
const std::vector<int64_t> kCounts = {0, 1, 3, 8, 15, 16, 17, 33, 1021, 16384, 16385, 40009};

TEST_CASE("GELU agrees with the reference, forward and backward, also in place", "[conformance]") {
  const int64_t count = GENERATE(from_range(kCounts));
  const float deviation = GENERATE(0.1f, 2.0f, 30.0f);
  const uint64_t seed = count;
  CAPTURE(seed, deviation);
  std::mt19937_64 random(seed);
  const Values x = RandomValues(random, count, deviation), dy = RandomValues(random, count);
  CompareWithReference([&](Arena& arena) {
    const Slice at_x = arena.Input(x), y = arena.Output(count), dx = arena.Output(count);
    const Slice in_place = arena.Input(x), gradient_in_place = arena.Input(dy), at_dy = arena.Input(dy);
    arena.Run(GeluForwardArgs{at_x, y, count});
    arena.Run(GeluForwardArgs{in_place, in_place, count});
    arena.Run(GeluBackwardArgs{at_x, at_dy, dx, count});
    arena.Run(GeluBackwardArgs{at_x, gradient_in_place, gradient_in_place, count});
    CHECK(arena.Read(in_place) == arena.Read(y));
    CHECK(arena.Read(gradient_in_place) == arena.Read(dx));
    return std::vector<Result>{{"y", arena.Read(y), Arithmetic::kPointwise},
                               {"dx", arena.Read(dx), Arithmetic::kPointwise}};
  });
}

TEST_CASE("GELU is accurate element by element down to its tails", "[conformance]") {
  // Each a tensor of its own, so that the table's "largest" is the element itself.
  const float x = GENERATE(-8.0f, -5.0f, -3.0f, -1.0f, -0.01f, 0.01f, 0.75f, 2.0f, 6.0f, 40.0f, -40.0f);
  CAPTURE(x);
  CompareWithReference([&](Arena& arena) {
    const Slice y = arena.Output(1), dx = arena.Output(1), at_x = arena.Input(Values{x});
    arena.Run(GeluForwardArgs{at_x, y, 1});
    arena.Run(GeluBackwardArgs{at_x, arena.Input(Values{1.0f}), dx, 1});
    if (x == -40.0f) {  // e^-1000s: nothing, or next to it
      CHECK(std::abs(arena.Read(y)[0]) < 1e-30f);
      CHECK(std::abs(arena.Read(dx)[0]) < 1e-30f);
      return std::vector<Result>{};
    }
    // At -8 the exponent is -50, whose own rounding is 3e-6.
    return std::vector<Result>{
        {"y", arena.Read(y), x < -2.0f ? Arithmetic::kChain : Arithmetic::kPointwise},
        {"dx", arena.Read(dx), x < -2.0f ? Arithmetic::kChain : Arithmetic::kPointwise}};
  });
}

TEST_CASE("SwiGLU agrees with the reference, forward and backward, also in place", "[conformance]") {
  const int64_t rows = GENERATE(0, 1, 3, 130), columns = GENERATE(0, 1, 5, 16, 31, 257);
  const float deviation = GENERATE(0.1f, 2.0f, 30.0f);
  const uint64_t seed = rows * 1009 + columns;
  CAPTURE(seed, rows, columns, deviation);
  std::mt19937_64 random(seed);
  const int64_t elements = rows * columns;
  const Values x = RandomValues(random, 2 * elements, deviation), dy = RandomValues(random, elements);
  CompareWithReference([&](Arena& arena) {
    const Slice at_x = arena.Input(x), at_dy = arena.Input(dy), in_place = arena.Input(x);
    const Slice y = arena.Output(elements), dx = arena.Output(2 * elements);
    arena.Run(SwiGluForwardArgs{at_x, y, rows, columns});
    arena.Run(SwiGluBackwardArgs{at_x, at_dy, dx, rows, columns});
    arena.Run(SwiGluBackwardArgs{in_place, at_dy, in_place, rows, columns});
    CHECK(arena.Read(in_place) == arena.Read(dx));
    return std::vector<Result>{{"y", arena.Read(y), Arithmetic::kPointwise},
                               {"dx", arena.Read(dx), Arithmetic::kPointwise}};
  });
}

TEST_CASE("SwiGLU is accurate element by element down to its tails", "[conformance]") {
  const float gate = GENERATE(-30.0f, -8.0f, -1.0f, -0.01f, 0.0f, 0.01f, 2.0f, 40.0f, 200.0f, -200.0f);
  CAPTURE(gate);
  CompareWithReference([&](Arena& arena) {
    const Slice x = arena.Input(Values{gate, 0.7f}), y = arena.Output(1), dx = arena.Output(2);
    arena.Run(SwiGluForwardArgs{x, y, 1, 1});
    arena.Run(SwiGluBackwardArgs{x, arena.Input(Values{1.3f}), dx, 1, 1});
    const Values gradients = arena.Read(dx);
    if (gate == -200.0f) {
      CHECK(std::abs(arena.Read(y)[0]) < 1e-30f);
      CHECK(std::abs(gradients[0]) < 1e-30f);
      CHECK(std::abs(gradients[1]) < 1e-30f);
      return std::vector<Result>{};
    }
    // Each a tensor of its own. The exponent's own rounding is 2e-6 at -30.
    const Arithmetic arithmetic = gate < -2.0f ? Arithmetic::kChain : Arithmetic::kPointwise;
    return std::vector<Result>{{"y", arena.Read(y), arithmetic},
                               {"d gate", {gradients[0]}, arithmetic},
                               {"d up", {gradients[1]}, arithmetic}};
  });
}

TEST_CASE("NaN is not swallowed", "[conformance]") {
  CompareWithReference([&](Arena& arena) {
    const Slice nan = arena.Input(Values(5, std::numeric_limits<float>::quiet_NaN()));
    const Slice one = arena.Input(Values(5, 1.0f)), y = arena.Input(Values(5)), dx = arena.Input(Values(5));
    const Slice norm = arena.Scalar(0), gated = arena.Input(Values(2)), d_gated = arena.Input(Values(4));
    arena.Run(GeluForwardArgs{nan, y, 5});
    arena.Run(GeluBackwardArgs{nan, one, dx, 5});
    arena.Run(SquaredNormArgs{nan, norm, 5});
    const Slice nan_gate = arena.Input(Values{std::numeric_limits<float>::quiet_NaN(), 1.0f, 1.0f, 1.0f});
    arena.Run(SwiGluForwardArgs{nan_gate, gated, 1, 2});
    arena.Run(SwiGluBackwardArgs{nan_gate, one, d_gated, 1, 2});
    CHECK(std::isnan(arena.Read(gated)[0]));
    CHECK(std::isnan(arena.Read(d_gated)[0]));
    CHECK(std::isnan(arena.Read(d_gated)[2]));
    CHECK(arena.Read(gated)[1] == Approx(0.731058579));
    CHECK(std::isnan(arena.Read(y)[0]));
    CHECK(std::isnan(arena.Read(dx)[4]));
    CHECK(std::isnan(arena.ReadScalar(norm)));
    return std::vector<Result>{};
  });
}

}  // namespace
}  // namespace medley
