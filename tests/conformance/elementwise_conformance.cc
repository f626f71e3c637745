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
    REQUIRE(arena.ops().GeluForward({at_x, y, count}).ok());
    REQUIRE(arena.ops().GeluForward({in_place, in_place, count}).ok());
    REQUIRE(arena.ops().GeluBackward({at_x, at_dy, dx, count}).ok());
    REQUIRE(arena.ops().GeluBackward({at_x, gradient_in_place, gradient_in_place, count}).ok());
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
    REQUIRE(arena.ops().GeluForward({at_x, y, 1}).ok());
    REQUIRE(arena.ops().GeluBackward({at_x, arena.Input(Values{1.0f}), dx, 1}).ok());
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

TEST_CASE("NaN is not swallowed", "[conformance]") {
  CompareWithReference([&](Arena& arena) {
    const Slice nan = arena.Input(Values(5, std::numeric_limits<float>::quiet_NaN()));
    const Slice one = arena.Input(Values(5, 1.0f)), y = arena.Input(Values(5)), dx = arena.Input(Values(5));
    const Slice norm = arena.Scalar(0);
    REQUIRE(arena.ops().GeluForward({nan, y, 5}).ok());
    REQUIRE(arena.ops().GeluBackward({nan, one, dx, 5}).ok());
    REQUIRE(arena.ops().SquaredNorm({nan, norm, 5}).ok());
    CHECK(std::isnan(arena.Read(y)[0]));
    CHECK(std::isnan(arena.Read(dx)[4]));
    CHECK(std::isnan(arena.ReadScalar(norm)));
    return std::vector<Result>{};
  });
}

TEST_CASE("Add, Fill and SquaredNorm agree with the reference", "[conformance]") {
  const int64_t count = GENERATE(from_range(kCounts));
  const uint64_t seed = count + 1;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Values a = RandomValues(random, count), b = RandomValues(random, count);
  CompareWithReference([&](Arena& arena) {
    const Slice at_a = arena.Input(a), at_b = arena.Input(b), c = arena.Output(count),
                filled = arena.Output(count);
    const Slice over_a = arena.Input(a), over_b = arena.Input(b), norm = arena.Scalar(-1);
    REQUIRE(arena.ops().Add({at_a, at_b, c, count}).ok());
    REQUIRE(arena.ops().Add({over_a, at_b, over_a, count}).ok());
    REQUIRE(arena.ops().Add({at_a, over_b, over_b, count}).ok());
    REQUIRE(arena.ops().Fill({filled, count, 0.3f}).ok());
    REQUIRE(arena.ops().SquaredNorm({at_a, norm, count}).ok());
    CHECK(arena.Read(over_a) == arena.Read(c));
    CHECK(arena.Read(over_b) == arena.Read(c));
    CHECK(arena.Read(filled) == Values(count, 0.3f));
    return std::vector<Result>{
        {"c", arena.Read(c), Arithmetic::kExact},
        {"norm", {static_cast<float>(arena.ReadScalar(norm))}, Arithmetic::kPointwise}};
  });
}

TEST_CASE("SumRows adds the column sums to what is there", "[conformance]") {
  const int64_t rows = GENERATE(0, 1, 3, 4, 7, 129), columns = GENERATE(0, 1, 15, 17, 257);
  const uint64_t seed = rows * 1009 + columns;
  CAPTURE(seed, rows, columns);
  std::mt19937_64 random(seed);
  const Values x = RandomValues(random, rows * columns), before = RandomValues(random, columns);
  CompareWithReference([&](Arena& arena) {
    const Slice out = arena.Input(before);
    REQUIRE(arena.ops().SumRows({arena.Input(x), out, rows, columns}).ok());
    return std::vector<Result>{{"out", arena.Read(out), Arithmetic::kSum}};
  });
}

TEST_CASE("AdamW gives the reference's bits", "[conformance]") {
  const int64_t count = GENERATE(from_range(kCounts));
  const int64_t step = GENERATE(1, 2, 1000, 100000);
  const float weight_decay = GENERATE(0.0f, 0.1f), gradient_scale = GENERATE(1.0f, 0.123f);
  const uint64_t seed = count * 31 + step;
  CAPTURE(seed, step, weight_decay, gradient_scale);
  std::mt19937_64 random(seed);
  const Values parameter = RandomValues(random, count), gradient = RandomValues(random, count, 1e-2f);
  const Values m = RandomValues(random, count, 1e-2f);
  Values v = RandomValues(random, count, 1e-2f);
  for (float& value : v) value *= value;
  CompareWithReference([&](Arena& arena) {
    const Slice at_parameter = arena.Input(parameter), at_m = arena.Input(m), at_v = arena.Input(v);
    REQUIRE(arena.ops()
                .AdamW({.parameter = at_parameter,
                        .gradient = arena.Input(gradient),
                        .m = at_m,
                        .v = at_v,
                        .elements = count,
                        .learning_rate = 6e-4f,
                        .weight_decay = weight_decay,
                        .gradient_scale = gradient_scale,
                        .step = step})
                .ok());
    return std::vector<Result>{{"parameter", arena.Read(at_parameter), Arithmetic::kExact},
                               {"m", arena.Read(at_m), Arithmetic::kExact},
                               {"v", arena.Read(at_v), Arithmetic::kExact}};
  });
}

TEST_CASE("embeddings agree with the reference, a token that repeats included", "[conformance]") {
  const int64_t batch = GENERATE(0, 1, 3), sequence = GENERATE(0, 1, 29), columns = GENERATE(1, 16, 33, 768);
  const int64_t vocabulary = 11;
  const uint64_t seed = batch * 101 + sequence * 7 + columns;
  CAPTURE(seed, batch, sequence, columns);
  std::mt19937_64 random(seed);
  const Values token_embedding = RandomValues(random, vocabulary * columns);
  const Values position_embedding = RandomValues(random, (sequence + 2) * columns);
  const Values dy = RandomValues(random, batch * sequence * columns);
  const std::vector<int32_t> tokens = RandomIntegers(random, batch * sequence, vocabulary);
  CompareWithReference([&](Arena& arena) {
    const Slice y = arena.Output(batch * sequence * columns), at_tokens = arena.Input(tokens);
    REQUIRE(arena.ops()
                .EmbeddingForward({.tokens = at_tokens,
                                   .token_embedding = arena.Input(token_embedding),
                                   .position_embedding = arena.Input(position_embedding),
                                   .y = y,
                                   .batch = batch,
                                   .sequence = sequence,
                                   .columns = columns})
                .ok());
    const Slice d_token = arena.Input(token_embedding), d_position = arena.Input(position_embedding);
    REQUIRE(arena.ops()
                .EmbeddingBackward({.tokens = at_tokens,
                                    .dy = arena.Input(dy),
                                    .d_token_embedding = d_token,
                                    .d_position_embedding = d_position,
                                    .batch = batch,
                                    .sequence = sequence,
                                    .columns = columns})
                .ok());
    return std::vector<Result>{{"y", arena.Read(y), Arithmetic::kExact},
                               {"d_token_embedding", arena.Read(d_token), Arithmetic::kExact},
                               {"d_position_embedding", arena.Read(d_position), Arithmetic::kExact}};
  });
}

}  // namespace
}  // namespace medley
