// The reference itself: its forward ops against what can be worked out by hand.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/conformance/arena.h"
#include "tests/conformance/device_under_test.h"

namespace medley {
namespace {

TEST_CASE("forward ops give what can be worked out by hand") {
  Arena arena(ReferenceDevice());
  const Slice c = arena.Output(4);
  arena.Run(MatmulArgs{.a = arena.Input(Values{1, 2, 3, 4, 5, 6}),
                       .b = arena.Input(Values{1, 2, 3, 4, 5, 6}),
                       .c = c,
                       .m = 2,
                       .n = 2,
                       .k = 3,
                       .bias = arena.Input(Values{10, 20})});
  CHECK(arena.Read(c) == Values{32, 48, 59, 84});
  const Slice y = arena.Output(2), mean = arena.Output(1), rstd = arena.Output(1);
  arena.Run(LayerNormForwardArgs{.x = arena.Input(Values{1, 5}),
                                 .gamma = arena.Input(Values{2, 3}),
                                 .beta = arena.Input(Values{1, 1}),
                                 .y = y,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .rows = 1,
                                 .columns = 2,
                                 .epsilon = 0});
  CHECK(arena.Read(y) == Values{-1, 4});
  CHECK(arena.Read(mean) == Values{3});
  CHECK(arena.Read(rstd) == Values{0.5f});
  const Slice gelu = arena.Output(2);
  arena.Run(GeluForwardArgs{arena.Input(Values{0, 1}), gelu, 2});
  CHECK(arena.Read(gelu)[0] == 0.0f);
  CHECK(arena.Read(gelu)[1] == Approx(0.8411920f));
  // Equal scores: each position averages the values up to its own.
  const Slice out = arena.Output(3), log_sum_exp = arena.Output(3);
  arena.Run(
      AttentionForwardArgs{arena.Input(Values{0, 1, 3, 0, 2, 5, 0, 3, 10}), out, log_sum_exp, 1, 3, 1, 1, 1});
  CHECK(arena.Read(out) == Values{3, 4, 6});
  CHECK(arena.Read(log_sum_exp)[2] == Approx(std::log(3.0)));
  const Slice loss = arena.Scalar(1);
  arena.Run(HeadLossArgs{.x = arena.Input(Values{0}),
                         .weight = arena.Input(Values{1, 2, 3, 4}),
                         .targets = arena.Input(std::vector<int32_t>{2}),
                         .loss_sum = loss,
                         .rows = 1,
                         .columns = 1,
                         .vocabulary = 4});
  CHECK(arena.ReadScalar(loss) == Approx(1 + std::log(4.0)));
  // One step from m = v = 0: the corrections undo 1 - beta, so p moves by lr * (sign(g) + decay * p).
  const Slice p = arena.Input(Values{2});
  const std::vector<AdamWRange> range = {{0, 1, 0.25f}};
  arena.Run(AdamWArgs{.parameter = p,
                      .gradient = arena.Input(Values{-8}),
                      .m = arena.Input(Values{0}),
                      .v = arena.Input(Values{0}),
                      .ranges = range,
                      .learning_rate = 0.5f,
                      .gradient_scale = 0.5f});
  CHECK(arena.Read(p)[0] == Approx(2 - 0.5 * (-1 + 0.5)));
  arena.Check();
}

TEST_CASE("a part of an embedding has the rows of its own tokens alone") {
  Arena arena(ReferenceDevice());
  // Tokens 5 and 6 of a larger vocabulary, of two columns.
  const Slice tokens = arena.Input(std::vector<int32_t>{6, 4, 5, 7, 5});
  const Slice y = arena.Output(10);
  arena.Run(EmbeddingForwardArgs{.tokens = tokens,
                                 .token_embedding = arena.Input(Values{1, 2, 3, 4}),
                                 .y = y,
                                 .batch = 1,
                                 .sequence = 5,
                                 .columns = 2,
                                 .first_token = 5,
                                 .vocabulary = 2});
  CHECK(arena.Read(y) == Values{3, 4, 0, 0, 1, 2, 0, 0, 1, 2});
  const Slice d_token = arena.Input(Values{0.5f, 0, 0, 0}), d_position = arena.Input(Values(10));
  const Values dy = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  arena.Run(EmbeddingBackwardArgs{.tokens = tokens,
                                  .dy = arena.Input(dy),
                                  .d_token_embedding = d_token,
                                  .d_position_embedding = d_position,
                                  .batch = 1,
                                  .sequence = 5,
                                  .columns = 2,
                                  .first_token = 5,
                                  .vocabulary = 2});
  CHECK(arena.Read(d_token) == Values{14.5f, 16, 1, 2});
  CHECK(arena.Read(d_position) == dy);
  arena.Check();
}

TEST_CASE("ranks that share a head know of each other's logits what their statistics say") {
  Arena arena(ReferenceDevice());
  // Logits log 1 and log 2 here, log 5 of another rank, which has the second row's target.
  const Slice log_sum_exp = arena.Output(2), target_logit = arena.Output(2);
  HeadStatisticsArgs args{.x = arena.Input(Values{1, 1}),
                          .weight = arena.Input(Values{0, std::log(2.0f)}),
                          .targets = arena.Input(std::vector<int32_t>{4, 2}),
                          .log_sum_exp = log_sum_exp,
                          .target_logit = target_logit,
                          .rows = 2,
                          .columns = 1,
                          .first_token = 3,
                          .vocabulary = 2};
  arena.Run(args);
  CHECK(arena.Read(log_sum_exp)[1] == Approx(std::log(3.0)));
  CHECK(arena.Read(target_logit) == Values{std::log(2.0f), 0});
  const Slice joined = arena.Output(2), loss = arena.Scalar(1);
  const float here = std::log(3.0f), there = std::log(5.0f);
  arena.Run(JoinHeadStatisticsArgs{
      .statistics = arena.Input(Values{here, here, there, there, std::log(2.0f), there}),
      .log_sum_exp = joined,
      .loss_sum = loss,
      .members = 2,
      .rows = 2});
  CHECK(arena.Read(joined)[0] == Approx(std::log(8.0)));
  CHECK(arena.ReadScalar(loss) == Approx(1 + std::log(8.0 / 2) + std::log(8.0 / 5)));
  // Probabilities 1/8 and 2/8; the first row's target is the second column.
  const Slice dx = arena.Output(2), dweight = arena.Input(Values{1, 1});
  arena.Run(HeadGradientArgs{.x = args.x,
                             .weight = args.weight,
                             .targets = args.targets,
                             .log_sum_exp = joined,
                             .dx = dx,
                             .dweight = dweight,
                             .rows = 2,
                             .columns = 1,
                             .first_token = 3,
                             .vocabulary = 2,
                             .gradient_scale = 8});
  CHECK(arena.Read(dx)[0] == Approx(-6 * std::log(2.0)));
  CHECK(arena.Read(dx)[1] == Approx(2 * std::log(2.0)));
  CHECK(arena.Read(dweight)[0] == Approx(1 + 1 + 1));
  CHECK(arena.Read(dweight)[1] == Approx(1 - 6 + 2));
  arena.Check();
}

TEST_CASE("Llama's ops give what can be worked out by hand") {
  Arena arena(ReferenceDevice());
  const Slice y = arena.Output(2), rstd = arena.Output(1);
  arena.Run(RmsNormForwardArgs{.x = arena.Input(Values{1, 7}),
                               .gamma = arena.Input(Values{2, 3}),
                               .y = y,
                               .rstd = rstd,
                               .rows = 1,
                               .columns = 2,
                               .epsilon = 0});
  CHECK(arena.Read(rstd)[0] == Approx(0.2));
  CHECK(arena.Read(y)[0] == Approx(0.4));
  CHECK(arena.Read(y)[1] == Approx(4.2));
  const Slice swiglu = arena.Output(2);
  arena.Run(SwiGluForwardArgs{arena.Input(Values{0, 1, 5, 2}), swiglu, 1, 2});
  CHECK(arena.Read(swiglu)[0] == 0.0f);
  CHECK(arena.Read(swiglu)[1] == Approx(1.4621172f));
  // The second position by a quarter turn: of (1, 2, 3, 4) the pairs are (1, 3) and (2, 4).
  const Slice turned = arena.Input(Values{1, 2, 3, 4, 1, 2, 3, 4});
  arena.Run(RotaryArgs{.x = turned,
                       .cosine = arena.Input(Values{1, 1, 0, 0}),
                       .sine = arena.Input(Values{0, 0, 1, 1}),
                       .batch = 1,
                       .sequence = 2,
                       .rotated_heads = 1,
                       .row_heads = 1,
                       .head_size = 4});
  CHECK(arena.Read(turned) == Values{1, 2, 3, 4, -3, -4, 1, 2});
  // Two query heads at one position share the one value.
  const Slice out = arena.Output(2);
  arena.Run(AttentionForwardArgs{arena.Input(Values{5, -5, 1, 9}), out, arena.Output(2), 1, 1, 2, 1, 1});
  CHECK(arena.Read(out) == Values{9, 9});
  const Slice scaled = arena.Input(Values{3, -1}), narrow = arena.Output(2, Dtype::kBf16);
  arena.Run(ScaleArgs{scaled, 2, 0.5f});
  CHECK(arena.Read(scaled) == Values{1.5f, -0.5f});
  arena.Run(CastArgs{scaled, narrow, 2});
  CHECK(arena.ReadBytes(narrow, Dtype::kBf16) == Values{0xc0, 0x3f, 0x00, 0xbf});
  arena.Check();
}

}  // namespace
}  // namespace medley
