// The reference itself: its gradients against central differences of its forward ops, and its forward ops
// against what can be worked out by hand.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/conformance/arena.h"
#include "tests/conformance/device_under_test.h"

namespace medley {
namespace {

constexpr float kStep = 1e-2f;
// Central differences err by step^2 / 6 of the third derivative and by f32 rounding over the step, each about
// 1e-4 of these sums.
constexpr double kTolerance = 1e-3;

using Loss = std::function<double(const Values&)>;

Values CentralDifferences(const Loss& loss, Values at) {
  Values gradient(at.size());
  for (size_t i = 0; i < at.size(); ++i) {
    const float value = at[i], up = value + kStep, down = value - kStep;
    at[i] = up;
    const double above = loss(at);
    at[i] = down;
    const double below = loss(at);
    at[i] = value;
    gradient[i] = static_cast<float>((above - below) / (static_cast<double>(up) - down));
  }
  return gradient;
}

double Dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST_CASE("LayerNormBackward is the gradient of LayerNormForward") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{4}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t rows = 3, columns = 5;
  const Values x = RandomValues(random, 15), gamma = RandomValues(random, 5), beta = RandomValues(random, 5);
  const Values dy = RandomValues(random, 15);
  const auto loss = [&](const Values& x, const Values& gamma, const Values& beta) {
    Arena arena(ReferenceDevice());
    const Slice y = arena.Output(15);
    REQUIRE(arena.ops()
                .LayerNormForward({arena.Input(x), arena.Input(gamma), arena.Input(beta), y, arena.Output(3),
                                   arena.Output(3), rows, columns})
                .ok());
    return Dot(arena.Read(y), dy);
  };
  Arena arena(ReferenceDevice());
  const Slice at_x = arena.Input(x), at_gamma = arena.Input(gamma), mean = arena.Output(3),
              rstd = arena.Output(3);
  const Slice dx = arena.Output(15), dgamma = arena.Input(Values(5)), dbeta = arena.Input(Values(5));
  REQUIRE(
      arena.ops()
          .LayerNormForward({at_x, at_gamma, arena.Input(beta), arena.Output(15), mean, rstd, rows, columns})
          .ok());
  REQUIRE(arena.ops()
              .LayerNormBackward({.dy = arena.Input(dy),
                                  .x = at_x,
                                  .gamma = at_gamma,
                                  .mean = mean,
                                  .rstd = rstd,
                                  .dx = dx,
                                  .dgamma = dgamma,
                                  .dbeta = dbeta,
                                  .rows = rows,
                                  .columns = columns})
              .ok());
  // Rows of five numbers can be nearly constant, and rstd then curves sharply.
  CheckClose("dx", arena.Read(dx),
             CentralDifferences([&](const Values& v) { return loss(v, gamma, beta); }, x), 5e-3);
  CheckClose("dgamma", arena.Read(dgamma),
             CentralDifferences([&](const Values& v) { return loss(x, v, beta); }, gamma), kTolerance);
  CheckClose("dbeta", arena.Read(dbeta),
             CentralDifferences([&](const Values& v) { return loss(x, gamma, v); }, beta), kTolerance);
}

TEST_CASE("GeluBackward is the gradient of GeluForward") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{4}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Values x = RandomValues(random, 20, 2.0f), dy = RandomValues(random, 20);
  const Loss loss = [&](const Values& x) {
    Arena arena(ReferenceDevice());
    const Slice y = arena.Output(20);
    REQUIRE(arena.ops().GeluForward({arena.Input(x), y, 20}).ok());
    return Dot(arena.Read(y), dy);
  };
  Arena arena(ReferenceDevice());
  const Slice dx = arena.Output(20);
  REQUIRE(arena.ops().GeluBackward({arena.Input(x), arena.Input(dy), dx, 20}).ok());
  CheckClose("dx", arena.Read(dx), CentralDifferences(loss, x), kTolerance);
}

TEST_CASE("AttentionBackward is the gradient of AttentionForward") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{4}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t batch = 2, sequence = 4, heads = 2, head_size = 3,
                elements = batch * sequence * heads * head_size;
  const Values qkv = RandomValues(random, 3 * elements), dout = RandomValues(random, elements);
  const auto forward = [&](Arena& arena, const Slice& at, const Slice& out, const Slice& log_sum_exp) {
    REQUIRE(arena.ops().AttentionForward({at, out, log_sum_exp, batch, sequence, heads, head_size}).ok());
  };
  const Loss loss = [&](const Values& qkv) {
    Arena arena(ReferenceDevice());
    const Slice out = arena.Output(elements);
    forward(arena, arena.Input(qkv), out, arena.Output(batch * heads * sequence));
    return Dot(arena.Read(out), dout);
  };
  Arena arena(ReferenceDevice());
  const Slice at = arena.Input(qkv), out = arena.Output(elements), dqkv = arena.Output(3 * elements);
  const Slice log_sum_exp = arena.Output(batch * heads * sequence);
  forward(arena, at, out, log_sum_exp);
  REQUIRE(arena.ops()
              .AttentionBackward(
                  {at, out, log_sum_exp, arena.Input(dout), dqkv, batch, sequence, heads, head_size})
              .ok());
  CheckClose("dqkv", arena.Read(dqkv), CentralDifferences(loss, qkv), kTolerance);
}

TEST_CASE("the gradients of HeadLoss are those of its loss") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{4}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t rows = 3, columns = 4, vocabulary = 6;
  const Values x = RandomValues(random, rows * columns), weight = RandomValues(random, vocabulary * columns);
  const std::vector<int32_t> targets = RandomIntegers(random, rows, vocabulary);
  const float scale = 0.5f;
  const auto loss = [&](const Values& x, const Values& weight) {
    Arena arena(ReferenceDevice());
    const Slice sum = arena.Scalar(0);
    REQUIRE(arena.ops()
                .HeadLoss({.x = arena.Input(x),
                           .weight = arena.Input(weight),
                           .targets = arena.Input(targets),
                           .loss_sum = sum,
                           .rows = rows,
                           .columns = columns,
                           .vocabulary = vocabulary})
                .ok());
    return scale * arena.ReadScalar(sum);
  };
  Arena arena(ReferenceDevice());
  const Slice dx = arena.Output(rows * columns), dweight = arena.Input(Values(vocabulary * columns));
  REQUIRE(arena.ops()
              .HeadLoss({.x = arena.Input(x),
                         .weight = arena.Input(weight),
                         .targets = arena.Input(targets),
                         .loss_sum = arena.Scalar(0),
                         .dx = dx,
                         .dweight = dweight,
                         .rows = rows,
                         .columns = columns,
                         .vocabulary = vocabulary,
                         .gradient_scale = scale})
              .ok());
  CheckClose("dx", arena.Read(dx), CentralDifferences([&](const Values& v) { return loss(v, weight); }, x),
             kTolerance);
  CheckClose("dweight", arena.Read(dweight),
             CentralDifferences([&](const Values& v) { return loss(x, v); }, weight), kTolerance);
}

TEST_CASE("forward ops give what can be worked out by hand") {
  Arena arena(ReferenceDevice());
  const Slice c = arena.Output(4);
  REQUIRE(arena.ops()
              .Matmul({.a = arena.Input(Values{1, 2, 3, 4, 5, 6}),
                       .b = arena.Input(Values{1, 2, 3, 4, 5, 6}),
                       .c = c,
                       .m = 2,
                       .n = 2,
                       .k = 3,
                       .bias = arena.Input(Values{10, 20})})
              .ok());
  CHECK(arena.Read(c) == Values{32, 48, 59, 84});
  const Slice y = arena.Output(2), mean = arena.Output(1), rstd = arena.Output(1);
  REQUIRE(arena.ops()
              .LayerNormForward({.x = arena.Input(Values{1, 5}),
                                 .gamma = arena.Input(Values{2, 3}),
                                 .beta = arena.Input(Values{1, 1}),
                                 .y = y,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .rows = 1,
                                 .columns = 2,
                                 .epsilon = 0})
              .ok());
  CHECK(arena.Read(y) == Values{-1, 4});
  CHECK(arena.Read(mean) == Values{3});
  CHECK(arena.Read(rstd) == Values{0.5f});
  const Slice gelu = arena.Output(2);
  REQUIRE(arena.ops().GeluForward({arena.Input(Values{0, 1}), gelu, 2}).ok());
  CHECK(arena.Read(gelu)[0] == 0.0f);
  CHECK(arena.Read(gelu)[1] == Approx(0.8411920f));
  // Equal scores: each position averages the values up to its own.
  const Slice out = arena.Output(3), log_sum_exp = arena.Output(3);
  REQUIRE(
      arena.ops()
          .AttentionForward({arena.Input(Values{0, 1, 3, 0, 2, 5, 0, 3, 10}), out, log_sum_exp, 1, 3, 1, 1})
          .ok());
  CHECK(arena.Read(out) == Values{3, 4, 6});
  CHECK(arena.Read(log_sum_exp)[2] == Approx(std::log(3.0)));
  const Slice loss = arena.Scalar(1);
  REQUIRE(arena.ops()
              .HeadLoss({.x = arena.Input(Values{0}),
                         .weight = arena.Input(Values{1, 2, 3, 4}),
                         .targets = arena.Input(std::vector<int32_t>{2}),
                         .loss_sum = loss,
                         .rows = 1,
                         .columns = 1,
                         .vocabulary = 4})
              .ok());
  CHECK(arena.ReadScalar(loss) == Approx(1 + std::log(4.0)));
  // One step from m = v = 0: the corrections undo 1 - beta, so p moves by lr * (sign(g) + decay * p).
  const Slice p = arena.Input(Values{2});
  REQUIRE(arena.ops()
              .AdamW({.parameter = p,
                      .gradient = arena.Input(Values{-8}),
                      .m = arena.Input(Values{0}),
                      .v = arena.Input(Values{0}),
                      .elements = 1,
                      .learning_rate = 0.5f,
                      .weight_decay = 0.25f,
                      .gradient_scale = 0.5f})
              .ok());
  CHECK(arena.Read(p)[0] == Approx(2 - 0.5 * (-1 + 0.5)));
  arena.Check();
}

}  // namespace
}  // namespace medley
