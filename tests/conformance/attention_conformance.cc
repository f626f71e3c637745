#include <catch2/catch.hpp>

#include "tests/conformance/arena.h"

namespace medley {
namespace {

struct Shape {
  int64_t batch, sequence, heads, key_value_heads, head_size;
};
// One position; around a block of queries; several blocks; head sizes off the vector width; groups of one,
// some and all query heads; nothing.
const std::vector<Shape> kShapes = {
    {1, 1, 1, 1, 1},   {2, 3, 2, 2, 5},    {1, 17, 3, 3, 16},  {2, 64, 1, 1, 8},
    {1, 65, 2, 2, 7},  {1, 63, 2, 2, 32},  {3, 129, 2, 2, 19}, {1, 200, 2, 2, 64},
    {1, 1, 4, 2, 2},   {2, 5, 4, 2, 3},    {1, 17, 6, 2, 16},  {1, 65, 3, 1, 10},
    {2, 130, 8, 4, 9}, {1, 70, 4, 1, 128}, {0, 4, 2, 1, 8},    {2, 0, 2, 2, 8}};

TEST_CASE("attention agrees with the reference, forward and backward, each key-value head for one or more",
          "[conformance]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const Precision precision = GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16);
  const float deviation = GENERATE(1.0f, 3.0f);  // 3: a few keys take most of the weight
  const uint64_t seed = shape.sequence * 1009 + shape.head_size;
  CAPTURE(seed, shape.batch, shape.sequence, shape.heads, shape.key_value_heads, shape.head_size, precision,
          deviation);
  if (precision != Precision::kF32 && deviation > 1.0f)
    return;  // a rounded score of 30 moves its weight by a tenth
  std::mt19937_64 random(seed);
  const int64_t positions = shape.batch * shape.sequence, rows = positions * shape.heads;
  const int64_t elements = rows * shape.head_size;
  const int64_t joined = positions * (shape.heads + 2 * shape.key_value_heads) * shape.head_size;
  const Values qkv = RandomValues(random, joined, deviation), dout = RandomValues(random, elements);
  CompareWithReference(
      [&](Arena& arena) {
        const Slice at_qkv = arena.Input(qkv), out = arena.Output(elements), log_sum_exp = arena.Output(rows);
        const Slice dqkv = arena.Output(joined);
        arena.Run(AttentionForwardArgs{.qkv = at_qkv,
                                       .out = out,
                                       .log_sum_exp = log_sum_exp,
                                       .batch = shape.batch,
                                       .sequence = shape.sequence,
                                       .heads = shape.heads,
                                       .key_value_heads = shape.key_value_heads,
                                       .head_size = shape.head_size,
                                       .precision = precision});
        arena.Run(AttentionBackwardArgs{.qkv = at_qkv,
                                        .out = out,
                                        .log_sum_exp = log_sum_exp,
                                        .dout = arena.Input(dout),
                                        .dqkv = dqkv,
                                        .batch = shape.batch,
                                        .sequence = shape.sequence,
                                        .heads = shape.heads,
                                        .key_value_heads = shape.key_value_heads,
                                        .head_size = shape.head_size,
                                        .precision = precision});
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
      arena.Run(AttentionForwardArgs{.qkv = arena.Input(qkv),
                                     .out = out,
                                     .log_sum_exp = arena.Output(sequence),
                                     .batch = 1,
                                     .sequence = sequence,
                                     .heads = 1,
                                     .key_value_heads = 1,
                                     .head_size = width});
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
