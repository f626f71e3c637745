#include <catch2/catch.hpp>
#include <cmath>

#include "tests/conformance/arena.h"

namespace medley {
namespace {

struct Shape {
  int64_t batch, sequence, rotated_heads, row_heads, head_size;
};
// One pair; half a head off the vector width; all heads, some and none turned; a Llama's row; nothing.
const std::vector<Shape> kShapes = {{1, 1, 1, 1, 2},   {2, 3, 2, 4, 6}, {1, 5, 3, 3, 34},   {3, 17, 5, 7, 10},
                                    {1, 64, 2, 4, 32}, {2, 9, 0, 3, 8}, {2, 31, 5, 6, 128}, {0, 4, 2, 3, 8},
                                    {2, 0, 2, 3, 8},   {2, 4, 2, 3, 0}};

TEST_CASE("Rotary agrees with the reference and turns back to where it began", "[conformance]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const uint64_t seed = shape.sequence * 1009 + shape.head_size;
  CAPTURE(seed, shape.batch, shape.sequence, shape.rotated_heads, shape.row_heads, shape.head_size);
  std::mt19937_64 random(seed);
  const int64_t row = shape.row_heads * shape.head_size, rows = shape.batch * shape.sequence;
  const int64_t half = shape.head_size / 2, angles = (shape.sequence + 3) * half;  // longer than the sequence
  const Values x = RandomValues(random, rows * row);
  Values cosine = RandomValues(random, angles, 2.0f), sine(angles);
  for (int64_t i = 0; i < angles; ++i) {
    sine[i] = std::sin(cosine[i]);
    cosine[i] = std::cos(cosine[i]);
  }
  CompareWithReference([&](Arena& arena) {
    RotaryArgs args{.x = arena.Input(x),
                    .cosine = arena.Input(cosine),
                    .sine = arena.Input(sine),
                    .batch = shape.batch,
                    .sequence = shape.sequence,
                    .rotated_heads = shape.rotated_heads,
                    .row_heads = shape.row_heads,
                    .head_size = shape.head_size};
    arena.Run(args);
    const Values turned = arena.Read(args.x);
    int64_t touched = 0;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = shape.rotated_heads * shape.head_size; i < row; ++i) {
        touched += turned[r * row + i] != x[r * row + i];
      }
    }
    CHECK(touched == 0);
    args.rotation = Rotation::kBackward;
    arena.Run(args);
    CheckClose("turned there and back", arena.Read(args.x), x, 1e-6);
    args.x = arena.Input(x);
    arena.Run(args);
    return std::vector<Result>{{"forward", turned, Arithmetic::kPointwise},
                               {"backward", arena.Read(args.x), Arithmetic::kPointwise}};
  });
}

}  // namespace
}  // namespace medley
