// The reference itself: its gradients against central differences of its forward ops.
#include <catch2/catch.hpp>

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
    arena.Run(LayerNormForwardArgs{arena.Input(x), arena.Input(gamma), arena.Input(beta), y, arena.Output(3),
                                   arena.Output(3), rows, columns});
    return Dot(arena.Read(y), dy);
  };
  Arena arena(ReferenceDevice());
  const Slice at_x = arena.Input(x), at_gamma = arena.Input(gamma), mean = arena.Output(3),
              rstd = arena.Output(3);
  const Slice dx = arena.Output(15), dgamma = arena.Input(Values(5)), dbeta = arena.Input(Values(5));
  arena.Run(
      LayerNormForwardArgs{at_x, at_gamma, arena.Input(beta), arena.Output(15), mean, rstd, rows, columns});
  arena.Run(LayerNormBackwardArgs{.dy = arena.Input(dy),
                                  .x = at_x,
                                  .gamma = at_gamma,
                                  .mean = mean,
                                  .rstd = rstd,
                                  .dx = dx,
                                  .dgamma = dgamma,
                                  .dbeta = dbeta,
                                  .rows = rows,
                                  .columns = columns});
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
    arena.Run(GeluForwardArgs{arena.Input(x), y, 20});
    return Dot(arena.Read(y), dy);
  };
  Arena arena(ReferenceDevice());
  const Slice dx = arena.Output(20);
  arena.Run(GeluBackwardArgs{arena.Input(x), arena.Input(dy), dx, 20});
  CheckClose("dx", arena.Read(dx), CentralDifferences(loss, x), kTolerance);
}

TEST_CASE("AttentionBackward is the gradient of AttentionForward") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{4}));
  const int64_t key_value_heads = GENERATE(1, 2, 4);
  CAPTURE(seed, key_value_heads);
  std::mt19937_64 random(seed);
  const int64_t batch = 2, sequence = 4, heads = 4, head_size = 3, positions = batch * sequence;
  const int64_t elements = positions * heads * head_size;
  const int64_t joined = positions * (heads + 2 * key_value_heads) * head_size;
  const Values qkv = RandomValues(random, joined), dout = RandomValues(random, elements);
  const auto forward = [&](Arena& arena, const Slice& at, const Slice& out, const Slice& log_sum_exp) {
    arena.Run(AttentionForwardArgs{at, out, log_sum_exp, batch, sequence, heads, key_value_heads, head_size});
  };
  const Loss loss = [&](const Values& qkv) {
    Arena arena(ReferenceDevice());
    const Slice out = arena.Output(elements);
    forward(arena, arena.Input(qkv), out, arena.Output(positions * heads));
    return Dot(arena.Read(out), dout);
  };
  Arena arena(ReferenceDevice());
  const Slice at = arena.Input(qkv), out = arena.Output(elements), dqkv = arena.Output(joined);
  const Slice log_sum_exp = arena.Output(positions * heads);
  forward(arena, at, out, log_sum_exp);
  arena.Run(AttentionBackwardArgs{at, out, log_sum_exp, arena.Input(dout), dqkv, batch, sequence, heads,
                                  key_value_heads, head_size});
  CheckClose("dqkv", arena.Read(dqkv), CentralDifferences(loss, qkv), kTolerance);
}

TEST_CASE("RmsNormBackward is the gradient of RmsNormForward") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{4}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t rows = 3, columns = 5;
  const Values x = RandomValues(random, 15), gamma = RandomValues(random, 5), dy = RandomValues(random, 15);
  const auto loss = [&](const Values& x, const Values& gamma) {
    Arena arena(ReferenceDevice());
    const Slice y = arena.Output(15);
    arena.Run(RmsNormForwardArgs{arena.Input(x), arena.Input(gamma), y, arena.Output(3), rows, columns});
    return Dot(arena.Read(y), dy);
  };
  Arena arena(ReferenceDevice());
  const Slice at_x = arena.Input(x), at_gamma = arena.Input(gamma), rstd = arena.Output(3);
  const Slice dx = arena.Output(15), dgamma = arena.Input(Values(5));
  arena.Run(RmsNormForwardArgs{at_x, at_gamma, arena.Output(15), rstd, rows, columns});
  arena.Run(RmsNormBackwardArgs{arena.Input(dy), at_x, at_gamma, rstd, dx, dgamma, rows, columns});
  CheckClose("dx", arena.Read(dx), CentralDifferences([&](const Values& v) { return loss(v, gamma); }, x),
             kTolerance);
  CheckClose("dgamma", arena.Read(dgamma),
             CentralDifferences([&](const Values& v) { return loss(x, v); }, gamma), kTolerance);
}

TEST_CASE("SwiGluBackward is the gradient of SwiGluForward") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{4}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t rows = 3, columns = 4;
  const Values x = RandomValues(random, 24, 2.0f), dy = RandomValues(random, 12);
  const Loss loss = [&](const Values& x) {
    Arena arena(ReferenceDevice());
    const Slice y = arena.Output(12);
    arena.Run(SwiGluForwardArgs{arena.Input(x), y, rows, columns});
    return Dot(arena.Read(y), dy);
  };
  Arena arena(ReferenceDevice());
  const Slice dx = arena.Output(24);
  arena.Run(SwiGluBackwardArgs{arena.Input(x), arena.Input(dy), dx, rows, columns});
  CheckClose("dx", arena.Read(dx), CentralDifferences(loss, x), kTolerance);
}

TEST_CASE("Rotary backward is the gradient of Rotary forward") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{4}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Values x = RandomValues(random, 2 * 3 * 3 * 4), dy = RandomValues(random, 2 * 3 * 3 * 4);
  const Values cosine = RandomValues(random, 3 * 2), sine = RandomValues(random, 3 * 2);  // linear in any
  const auto turn = [&](const Values& values, Rotation rotation) {
    Arena arena(ReferenceDevice());
    const Slice at = arena.Input(values);
    arena.Run(RotaryArgs{at, arena.Input(cosine), arena.Input(sine), 2, 3, 2, 3, 4, rotation});
    return arena.Read(at);
  };
  CheckClose("dx", turn(dy, Rotation::kBackward),
             CentralDifferences([&](const Values& v) { return Dot(turn(v, Rotation::kForward), dy); }, x),
             kTolerance);
}

TEST_CASE("Matmul's gradient of GELU is that of its GELU") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{4}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  // y = gelu(a b), loss = (y w) . d, so d loss / d (a b) = (d w^T) * gelu'(a b).
  const int64_t m = 3, k = 2, n = 4;
  const Values a = RandomValues(random, m * k), b = RandomValues(random, k * n),
               d = RandomValues(random, m * k);
  const Values w = RandomValues(random, n * k);
  Arena arena(ReferenceDevice());
  const Slice y = arena.Output(m * n), pre_activation = arena.Output(m * n), gradient = arena.Output(m * n);
  MatmulArgs args{.a = arena.Input(a), .b = arena.Input(b), .c = y, .m = m, .n = n, .k = k};
  args.epilogue = Epilogue::kGelu;
  args.pre_activation = pre_activation;
  arena.Run(args);
  args = {.a = arena.Input(d),
          .b = arena.Input(w),
          .c = gradient,
          .m = m,
          .n = n,
          .k = k,
          .transpose_b = Transpose::kYes};
  args.epilogue = Epilogue::kGeluGradient;
  args.pre_activation = pre_activation;
  arena.Run(args);
  const Loss loss = [&](const Values& pre_activation) {
    Arena arena(ReferenceDevice());
    const Slice y = arena.Output(m * n), out = arena.Output(m * k);
    arena.Run(GeluForwardArgs{arena.Input(pre_activation), y, m * n});
    arena.Run(MatmulArgs{.a = y, .b = arena.Input(w), .c = out, .m = m, .n = k, .k = n});
    return Dot(arena.Read(out), d);
  };
  CheckClose("gradient", arena.Read(gradient), CentralDifferences(loss, arena.Read(pre_activation)),
             kTolerance);
  const Slice again = arena.Output(m * n);
  arena.Run(GeluForwardArgs{pre_activation, again, m * n});
  CheckClose("y", arena.Read(y), arena.Read(again), 1e-6);
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
    arena.Run(HeadLossArgs{.x = arena.Input(x),
                           .weight = arena.Input(weight),
                           .targets = arena.Input(targets),
                           .loss_sum = sum,
                           .rows = rows,
                           .columns = columns,
                           .vocabulary = vocabulary});
    return scale * arena.ReadScalar(sum);
  };
  Arena arena(ReferenceDevice());
  const Slice dx = arena.Output(rows * columns), dweight = arena.Input(Values(vocabulary * columns));
  arena.Run(HeadLossArgs{.x = arena.Input(x),
                         .weight = arena.Input(weight),
                         .targets = arena.Input(targets),
                         .loss_sum = arena.Scalar(0),
                         .dx = dx,
                         .dweight = dweight,
                         .rows = rows,
                         .columns = columns,
                         .vocabulary = vocabulary,
                         .gradient_scale = scale});
  CheckClose("dx", arena.Read(dx), CentralDifferences([&](const Values& v) { return loss(v, weight); }, x),
             kTolerance);
  CheckClose("dweight", arena.Read(dweight),
             CentralDifferences([&](const Values& v) { return loss(x, v); }, weight), kTolerance);
}

TEST_CASE("the parts of HeadGradient are the gradients of the loss that JoinHeadStatistics counts") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{4}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const int64_t rows = 3, columns = 4;
  const std::vector<int64_t> first_tokens = {0, 5}, vocabularies = {5, 2};  // of two ranks
  const Values x = RandomValues(random, rows * columns);
  const std::vector<Values> weights = {RandomValues(random, 5 * columns), RandomValues(random, 2 * columns)};
  const std::vector<int32_t> targets = RandomIntegers(random, rows, 7);
  const float scale = 0.5f;
  // Leaves log_sum_exp of the whole vocabulary in `log_sum_exp`; returns the loss.
  const auto forward = [&](Arena& arena, const Values& x, const std::vector<Values>& weights,
                           const Slice& log_sum_exp) {
    const Slice sum = arena.Scalar(0);
    Values statistics, target_logits(rows);
    for (int rank = 0; rank < 2; ++rank) {
      const Slice of_rank = arena.Output(rows), target_logit = arena.Output(rows);
      arena.Run(HeadStatisticsArgs{.x = arena.Input(x),
                                   .weight = arena.Input(weights[rank]),
                                   .targets = arena.Input(targets),
                                   .log_sum_exp = of_rank,
                                   .target_logit = target_logit,
                                   .rows = rows,
                                   .columns = columns,
                                   .first_token = first_tokens[rank],
                                   .vocabulary = vocabularies[rank]});
      for (const float value : arena.Read(of_rank)) statistics.push_back(value);
      const Values logits = arena.Read(target_logit);
      for (int64_t r = 0; r < rows; ++r) target_logits[r] += logits[r];
    }
    statistics.insert(statistics.end(), target_logits.begin(), target_logits.end());
    arena.Run(JoinHeadStatisticsArgs{.statistics = arena.Input(statistics),
                                     .log_sum_exp = log_sum_exp,
                                     .loss_sum = sum,
                                     .members = 2,
                                     .rows = rows});
    return scale * arena.ReadScalar(sum);
  };
  const auto loss = [&](const Values& x, const std::vector<Values>& weights) {
    Arena arena(ReferenceDevice());
    return forward(arena, x, weights, arena.Output(rows));
  };
  Arena arena(ReferenceDevice());
  const Slice log_sum_exp = arena.Output(rows);
  forward(arena, x, weights, log_sum_exp);
  Values dx(rows * columns);
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    const Slice dx_part = arena.Output(rows * columns);
    const Slice dweight = arena.Input(Values(vocabularies[rank] * columns));
    arena.Run(HeadGradientArgs{.x = arena.Input(x),
                               .weight = arena.Input(weights[rank]),
                               .targets = arena.Input(targets),
                               .log_sum_exp = log_sum_exp,
                               .dx = dx_part,
                               .dweight = dweight,
                               .rows = rows,
                               .columns = columns,
                               .first_token = first_tokens[rank],
                               .vocabulary = vocabularies[rank],
                               .gradient_scale = scale});
    const Values part = arena.Read(dx_part);
    for (size_t i = 0; i < dx.size(); ++i) dx[i] += part[i];
    const auto with_weight = [&](const Values& v) {
      std::vector<Values> changed = weights;
      changed[rank] = v;
      return loss(x, changed);
    };
    CheckClose("dweight", arena.Read(dweight), CentralDifferences(with_weight, weights[rank]), kTolerance);
  }
  CheckClose("dx", dx, CentralDifferences([&](const Values& v) { return loss(v, weights); }, x), kTolerance);
}

}  // namespace
}  // namespace medley
