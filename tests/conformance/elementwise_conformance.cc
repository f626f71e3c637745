#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/conformance/arena.h"

namespace medley {
namespace {

// Around vector widths, around a chunk, and none.
const std::vector<int64_t> kCounts = {0, 1, 3, 8, 15, 16, 17, 33, 1021, 16384, 16385, 40009};

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
    arena.Run(AddArgs{at_a, at_b, c, count});
    arena.Run(AddArgs{over_a, at_b, over_a, count});
    arena.Run(AddArgs{at_a, over_b, over_b, count});
    arena.Run(FillArgs{filled, count, 0.3f});
    arena.Run(SquaredNormArgs{at_a, norm, count});
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
    arena.Run(SumRowsArgs{arena.Input(x), out, rows, columns});
    return std::vector<Result>{{"out", arena.Read(out), Arithmetic::kSum}};
  });
}

TEST_CASE("Scale and Cast give the reference's bits", "[conformance]") {
  const int64_t count = GENERATE(from_range(kCounts));
  const uint64_t seed = count + 2;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Values x = RandomValues(random, count);
  // Finite, subnormals among them.
  const Dtype dtype = GENERATE(Dtype::kBf16, Dtype::kF16);
  CAPTURE(dtype);
  std::vector<uint16_t> bits(count);
  for (uint16_t& each : bits)
    each = static_cast<uint16_t>(random() % (dtype == Dtype::kF16 ? 0x7c00 : 0x7f80));
  CompareWithReference([&](Arena& arena) {
    const Slice scaled = arena.Input(x), at_x = arena.Input(x), at_narrow = arena.Input(bits, dtype);
    const Slice narrow = arena.Output(count, dtype), same_narrow = arena.Output(count, dtype);
    const Slice wide = arena.Output(count), same = arena.Output(count);
    arena.Run(ScaleArgs{scaled, count, 0.37f});
    arena.Run(CastArgs{at_x, narrow, count});
    arena.Run(CastArgs{at_narrow, wide, count});
    arena.Run(CastArgs{at_x, same, count});
    arena.Run(CastArgs{at_narrow, same_narrow, count});
    CHECK(arena.Read(same) == x);
    return std::vector<Result>{{"scaled", arena.Read(scaled), Arithmetic::kExact},
                               {"to narrow", arena.ReadBytes(narrow, dtype), Arithmetic::kExact},
                               {"from narrow", arena.ReadBytes(wide, Dtype::kF32), Arithmetic::kExact},
                               {"narrow to narrow", arena.ReadBytes(same_narrow, dtype), Arithmetic::kExact}};
  });
}

// Casts `x` there and back; minus zero keeps its sign, and NaN stays one.
void CheckRounding(Dtype dtype, const Values& x, const Values& want) {
  const int64_t count = static_cast<int64_t>(x.size());
  const size_t minus_zero =
      std::find_if(x.begin(), x.end(), [](float v) { return v == 0 && std::signbit(v); }) - x.begin();
  REQUIRE(minus_zero < x.size());
  CompareWithReference([&](Arena& arena) {
    const Slice narrow = arena.Output(count, dtype), wide = arena.Output(count);
    arena.Run(CastArgs{arena.Input(x), narrow, count});
    arena.Run(CastArgs{narrow, wide, count});
    const Values got = arena.Read(wide);
    CHECK(got == want);
    CHECK(std::signbit(got[minus_zero]));
    const Slice nan = arena.Input(Values(3, std::numeric_limits<float>::quiet_NaN()));
    const Slice narrow_nan = arena.Output(3, dtype), back = arena.Input(Values(3));
    arena.Run(CastArgs{nan, narrow_nan, 3});
    arena.Run(CastArgs{narrow_nan, back, 3});
    for (float value : arena.Read(back)) CHECK(std::isnan(value));
    return std::vector<Result>{};
  });
}

TEST_CASE("Cast rounds ties to even, overflows to infinity and keeps NaN", "[conformance]") {
  const float infinity = std::numeric_limits<float>::infinity();
  // Half-way down and up, just past half-way, the largest f32, the smallest subnormal, a carry into the
  // exponent.
  CheckRounding(
      Dtype::kBf16,
      {1.0f + 0x1p-8f, 1.0f + 0x3p-8f, 1.0f + 0x1.01p-8f, -1.0f - 0x1p-8f, 0x1.fffffep127f, 0x1p-149f,
       -0x1.fffffep-1f, -0.0f, -infinity, infinity},
      {1.0f, 1.0f + 0x1p-6f, 1.0f + 0x1p-7f, -1.0f, infinity, 0.0f, -1.0f, -0.0f, -infinity, infinity});
}

TEST_CASE("Cast to f16 rounds ties to even, knows subnormals, overflows to infinity and keeps NaN",
          "[conformance]") {
  const float infinity = std::numeric_limits<float>::infinity();
  CheckRounding(Dtype::kF16,
                {1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 65519.0f, 65520.0f, 0x1p-24f, 0x1p-25f, 0x1.8p-24f,
                 -0x1.ffcp-15f, -infinity, 0x1p-149f, -0.0f, 0x1.fffffep127f},
                {1.0f, 1.0f + 0x1p-9f, 65504.0f, infinity, 0x1p-24f, 0.0f, 0x1p-23f, -0x1p-14f, -infinity,
                 0.0f, -0.0f, infinity});
}

TEST_CASE("AdamW gives the reference's bits, and leaves alone what lies between its ranges",
          "[conformance]") {
  const int64_t count = GENERATE(from_range(kCounts));
  const int64_t step = GENERATE(1, 2, 1000, 100000);
  const float weight_decay = GENERATE(0.0f, 0.1f), gradient_scale = GENERATE(1.0f, 0.123f);
  const uint64_t seed = count * 31 + step;
  CAPTURE(seed, step, weight_decay, gradient_scale);
  std::mt19937_64 random(seed);
  // A gap, `count` elements, a range of none, a gap, one element, at once three that decay differently.
  const std::vector<AdamWRange> ranges = {
      {5, count, weight_decay}, {5 + count, 0, 0.5f}, {10 + count, 1, weight_decay}, {11 + count, 3, 0.3f}};
  const int64_t total = count + 16;
  const Values parameter = RandomValues(random, total), gradient = RandomValues(random, total, 1e-2f);
  const Values m = RandomValues(random, total, 1e-2f);
  Values v = RandomValues(random, total, 1e-2f);
  for (float& value : v) value *= value;
  CompareWithReference([&](Arena& arena) {
    const Slice at_parameter = arena.Input(parameter), at_m = arena.Input(m), at_v = arena.Input(v);
    {
      const std::vector<AdamWRange> until_submitted = ranges;
      arena.Run(AdamWArgs{.parameter = at_parameter,
                          .gradient = arena.Input(gradient),
                          .m = at_m,
                          .v = at_v,
                          .ranges = until_submitted,
                          .learning_rate = 6e-4f,
                          .gradient_scale = gradient_scale,
                          .step = step});
    }
    const Values after = arena.Read(at_parameter), m_after = arena.Read(at_m), v_after = arena.Read(at_v);
    for (const int64_t gap : {int64_t{0}, int64_t{4}, 5 + count, 9 + count, 14 + count, 15 + count}) {
      CHECK(after[gap] == parameter[gap]);
      CHECK(m_after[gap] == m[gap]);
      CHECK(v_after[gap] == v[gap]);
    }
    return std::vector<Result>{{"parameter", after, Arithmetic::kExact},
                               {"m", m_after, Arithmetic::kExact},
                               {"v", v_after, Arithmetic::kExact}};
  });
}

struct Part {
  int64_t first_token, vocabulary;
};

TEST_CASE("embeddings agree with the reference, with and without positions, a token that repeats included",
          "[conformance]") {
  const int64_t batch = GENERATE(0, 1, 3), sequence = GENERATE(0, 1, 29), columns = GENERATE(1, 16, 33, 768);
  const bool with_positions = GENERATE(true, false);
  const int64_t whole = 11;
  // All of it, its beginning, its middle, its end, and nothing that any token has.
  const Part part = GENERATE(values<Part>({{0, 11}, {0, 1}, {3, 5}, {7, 4}, {11, 2}}));
  const uint64_t seed = batch * 101 + sequence * 7 + columns;
  CAPTURE(seed, batch, sequence, columns, with_positions, part.first_token, part.vocabulary);
  std::mt19937_64 random(seed);
  const Values token_embedding = RandomValues(random, part.vocabulary * columns);
  const Values position_embedding = RandomValues(random, (sequence + 2) * columns);
  const Values dy = RandomValues(random, batch * sequence * columns);
  const std::vector<int32_t> tokens = RandomIntegers(random, batch * sequence, whole);
  CompareWithReference([&](Arena& arena) {
    const Slice y = arena.Output(batch * sequence * columns), at_tokens = arena.Input(tokens);
    arena.Run(
        EmbeddingForwardArgs{.tokens = at_tokens,
                             .token_embedding = arena.Input(token_embedding),
                             .position_embedding = with_positions ? arena.Input(position_embedding) : Slice{},
                             .y = y,
                             .batch = batch,
                             .sequence = sequence,
                             .columns = columns,
                             .first_token = part.first_token,
                             .vocabulary = part.vocabulary});
    const Slice d_token = arena.Input(token_embedding), d_position = arena.Input(position_embedding);
    arena.Run(EmbeddingBackwardArgs{.tokens = at_tokens,
                                    .dy = arena.Input(dy),
                                    .d_token_embedding = d_token,
                                    .d_position_embedding = with_positions ? d_position : Slice{},
                                    .batch = batch,
                                    .sequence = sequence,
                                    .columns = columns,
                                    .first_token = part.first_token,
                                    .vocabulary = part.vocabulary});
    return std::vector<Result>{{"y", arena.Read(y), Arithmetic::kExact},
                               {"d_token_embedding", arena.Read(d_token), Arithmetic::kExact},
                               {"d_position_embedding", arena.Read(d_position), Arithmetic::kExact}};
  });
}

}  // namespace
}  // namespace medley
