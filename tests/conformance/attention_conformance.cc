#include <catch2/catch.hpp>

#include "tests/conformance/arena.h"

namespace medley {
namespace {

struct Shape {
  int64_t batch, sequence, heads, head_size;
};
// One position; around a block of queries; several blocks; head sizes off the vector width; nothing.
const std::vector<Shape> kShapes = {{1, 1, 1, 1},  {2, 3, 2, 5},   {1, 17, 3, 16},  {2, 64, 1, 8},
                                    {1, 65, 2, 7}, {1, 63, 2, 32}, {3, 129, 2, 19}, {1, 200, 2, 64},
                                    {0, 4, 2, 8},  {2, 0, 2, 8}};

TEST_CASE("attention agrees with the reference, forward and backward", "[conformance]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const Precision precision = GENERATE(Precision::kF32, Precision::kBf16);
  const float deviation = GENERATE(1.0f, 3.0f);  // 3: a few keys take most of the weight
  const uint64_t seed = shape.sequence * 1009 + shape.head_size;
  CAPTURE(seed, shape.batch, shape.sequence, shape.heads, shape.head_size, precision, deviation);
  if (precision == Precision::kBf16 && deviation > 1.0f)
    return;  // a rounded score of 30 moves its weight by a tenth
  std::mt19937_64 random(seed);
  const int64_t rows = shape.batch * shape.sequence * shape.heads, elements = rows * shape.head_size;
  const Values qkv = RandomValues(random, 3 * elements, deviation), dout = RandomValues(random, elements);
  CompareWithReference(
      [&](Arena& arena) {
        const Slice at_qkv = arena.Input(qkv), out = arena.Output(elements), log_sum_exp = arena.Output(rows);
        const Slice dqkv = arena.Output(3 * elements);
        REQUIRE(arena.ops()
                    .AttentionForward({.qkv = at_qkv,
                                       .out = out,
                                       .log_sum_exp = log_sum_exp,
                                       .batch = shape.batch,
                                       .sequence = shape.sequence,
                                       .heads = shape.heads,
                                       .head_size = shape.head_size,
                                       .precision = precision})
                    .ok());
        REQUIRE(arena.ops()
                    .AttentionBackward({.qkv = at_qkv,
                                        .out = out,
                                        .log_sum_exp = log_sum_exp,
                                        .dout = arena.Input(dout),
                                        .dqkv = dqkv,
                                        .batch = shape.batch,
                                        .sequence = shape.sequence,
                                        .heads = shape.heads,
                                        .head_size = shape.head_size,
                                        .precision = precision})
                    .ok());
        return std::vector<Result>{{"out", arena.Read(out), Arithmetic::kChain},
                                   {"log_sum_exp", arena.Read(log_sum_exp), Arithmetic::kChain},
                                   {"dqkv", arena.Read(dqkv), Arithmetic::kChain}};
      },
      precision);
}

TEST_CASE("no position sees a later one", "[conformance]") {
  const uint64_t seed = 11;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t sequence = 130, width = 8;
  const int64_t changed = GENERATE(1, 63, 64, 129);
  Values qkv = RandomValues(random, sequence * 3 * width);
  CompareWithReference([&](Arena& arena) {
    const auto forward = [&] {
      const Slice out = arena.Output(sequence * width);
      REQUIRE(arena.ops()
                  .AttentionForward({.qkv = arena.Input(qkv),
                                     .out = out,
                                     .log_sum_exp = arena.Output(sequence),
                                     .batch = 1,
                                     .sequence = sequence,
                                     .heads = 1,
                                     .head_size = width})
                  .ok());
      return arena.Read(out);
    };
    const Values before = forward();
    Values& values = qkv;
    const Values kept = values;
    for (int64_t i = changed * 3 * width; i < sequence * 3 * width; ++i) values[i] = 100.0f;
    const Values after = forward();
    values = kept;
    CHECK(Values(before.begin(), before.begin() + changed * width) ==
          Values(after.begin(), after.begin() + changed * width));
    CHECK(Values(before.begin() + changed * width, before.end()) !=
          Values(after.begin() + changed * width, after.end()));
    return std::vector<Result>{};
  });
}

}  // namespace
}  // namespace medley
