// HeadStatistics, JoinHeadStatistics and HeadGradient, each by itself, and together as a unit's ranks run them.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/conformance/arena.h"
#include "tests/conformance/device_under_test.h"

namespace medley {
namespace {

// Of a rank that has the tokens [first_token, first_token + vocabulary) of a `whole` vocabulary.
struct Shape {
  int64_t rows, columns, first_token, vocabulary, whole;
};
const std::vector<Shape> kShapes = {
    {1, 1, 0, 1, 2},          {1, 5, 1, 2, 4},       {3, 7, 0, 17, 17},
    {16, 16, 16, 16, 48},     {13, 33, 100, 1, 101}, {0, 4, 2, 3, 5},
    {29, 5, 997, 4006, 5003}, {17, 9, 64, 32, 60}};  // the last: no target is in it

struct Inputs {
  Values x, weight;
  std::vector<int32_t> targets;
};

Inputs RandomInputs(std::mt19937_64& random, const Shape& shape) {
  return {RandomValues(random, shape.rows * shape.columns),
          RandomValues(random, shape.vocabulary * shape.columns),
          RandomIntegers(random, shape.rows, shape.whole)};
}

HeadStatisticsArgs StatisticsOf(Arena& arena, const Shape& shape, const Inputs& inputs, Precision precision) {
  return {.x = arena.Input(inputs.x),
          .weight = arena.Input(inputs.weight),
          .targets = arena.Input(inputs.targets),
          .log_sum_exp = arena.Output(shape.rows),
          .target_logit = arena.Output(shape.rows),
          .rows = shape.rows,
          .columns = shape.columns,
          .first_token = shape.first_token,
          .vocabulary = shape.vocabulary,
          .precision = precision};
}

HeadGradientArgs GradientOf(Arena& arena, const Shape& shape, const Inputs& inputs, const Slice& log_sum_exp,
                            const Values& dweight, float gradient_scale, Precision precision) {
  return {.x = arena.Input(inputs.x),
          .weight = arena.Input(inputs.weight),
          .targets = arena.Input(inputs.targets),
          .log_sum_exp = log_sum_exp,
          .dx = arena.Output(shape.rows * shape.columns),
          .dweight = arena.Input(dweight),
          .rows = shape.rows,
          .columns = shape.columns,
          .first_token = shape.first_token,
          .vocabulary = shape.vocabulary,
          .gradient_scale = gradient_scale,
          .precision = precision};
}

TEST_CASE("HeadStatistics agree with the reference, of the whole vocabulary and of parts", "[conformance]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const Precision precision = GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16);
  const uint64_t seed = shape.rows * 1009 + shape.vocabulary;
  CAPTURE(seed, shape.rows, shape.columns, shape.first_token, shape.vocabulary, precision);
  std::mt19937_64 random(seed);
  const Inputs inputs = RandomInputs(random, shape);
  CompareWithReference(
      [&](Arena& arena) {
        const HeadStatisticsArgs args = StatisticsOf(arena, shape, inputs, precision);
        arena.Run(args);
        return std::vector<Result>{
            {"log_sum_exp", arena.Read(args.log_sum_exp), Arithmetic::kChain},
            {"target_logit", arena.Read(args.target_logit), Arithmetic::kSum},
        };
      },
      precision);
}

TEST_CASE("a target that another rank has is no logit of this one's", "[conformance]") {
  const Shape shape = {4, 2, 10, 3, 20};
  const Inputs inputs = {Values(8, 1.0f), Values(6, 2.0f), {9, 13, 0, 19}};
  const auto check = [&](Arena& arena) {
    const HeadStatisticsArgs args = StatisticsOf(arena, shape, inputs, Precision::kF32);
    arena.Run(args);
    CHECK(arena.Read(args.target_logit) == Values(4));
    // Every logit is log_sum_exp less log 3: without a target the gradient is a third for each.
    const HeadGradientArgs gradient =
        GradientOf(arena, shape, inputs, args.log_sum_exp, Values(6), 1, Precision::kF32);
    arena.Run(gradient);
    CheckClose("dx", arena.Read(gradient.dx), Values(8, 2.0f), 1e-5);
    CheckClose("dweight", arena.Read(gradient.dweight), Values(6, 4.0f / 3), 1e-5);
  };
  Arena reference(ReferenceDevice());
  check(reference);
  OnDeviceUnderTest(check);
}

TEST_CASE("JoinHeadStatistics agree with the reference, with and without the loss", "[conformance]") {
  const int64_t members = GENERATE(1, 2, 3, 8), rows = GENERATE(0, 1, 7, 1025, 20000);
  const bool with_loss = GENERATE(true, false);
  const uint64_t seed = members * 101 + rows;
  CAPTURE(seed, members, rows, with_loss);
  std::mt19937_64 random(seed);
  const Values statistics = RandomValues(random, (members + 1) * rows, 5.0f);
  CompareWithReference([&](Arena& arena) {
    const Slice log_sum_exp = arena.Output(rows), loss = arena.Scalar(0.25);
    arena.Run(JoinHeadStatisticsArgs{.statistics = arena.Input(statistics),
                                     .log_sum_exp = log_sum_exp,
                                     .loss_sum = with_loss ? loss : Slice{},
                                     .members = members,
                                     .rows = rows});
    if (!with_loss) CHECK(arena.ReadScalar(loss) == 0.25);
    return std::vector<Result>{
        {"log_sum_exp", arena.Read(log_sum_exp), Arithmetic::kChain},
        {"loss_sum", {static_cast<float>(arena.ReadScalar(loss))}, Arithmetic::kChain}};
  });
}

TEST_CASE("statistics far apart are joined without overflow", "[conformance]") {
  // Two members, two rows: e^300 and e^-300 together, and alike.
  const auto check = [](Arena& arena) {
    const Slice log_sum_exp = arena.Output(2), loss = arena.Scalar(0);
    arena.Run(JoinHeadStatisticsArgs{.statistics = arena.Input(Values{300, -300, -300, -300, 299, -301}),
                                     .log_sum_exp = log_sum_exp,
                                     .loss_sum = loss,
                                     .members = 2,
                                     .rows = 2});
    CHECK(arena.Read(log_sum_exp)[0] == 300.0f);
    CHECK(arena.Read(log_sum_exp)[1] == Approx(-300 + std::log(2.0)));
    CHECK(arena.ReadScalar(loss) == Approx(1 + 1 + std::log(2.0)));
  };
  Arena reference(ReferenceDevice());
  check(reference);
  OnDeviceUnderTest(check);
}

TEST_CASE("HeadGradient agrees with the reference, of the whole vocabulary and of parts", "[conformance]") {
  const Shape shape = GENERATE(from_range(kShapes));
  const Precision precision = GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16);
  const float gradient_scale = GENERATE(1.0f, 0.37f);
  const uint64_t seed = shape.rows * 1009 + shape.vocabulary;
  CAPTURE(seed, shape.rows, shape.columns, shape.first_token, shape.vocabulary, precision, gradient_scale);
  std::mt19937_64 random(seed);
  const Inputs inputs = RandomInputs(random, shape);
  const Values before = RandomValues(random, shape.vocabulary * shape.columns);
  // Of more than this rank's logits.
  Arena oracle(ReferenceDevice());
  const HeadStatisticsArgs statistics = StatisticsOf(oracle, shape, inputs, precision);
  oracle.Run(statistics);
  Values log_sum_exp = oracle.Read(statistics.log_sum_exp);
  for (float& value : log_sum_exp) value += shape.vocabulary < shape.whole ? 0.7f : 0.0f;
  CompareWithReference(
      [&](Arena& arena) {
        const HeadGradientArgs args =
            GradientOf(arena, shape, inputs, arena.Input(log_sum_exp), before, gradient_scale, precision);
        arena.Run(args);
        return std::vector<Result>{{"dx", arena.Read(args.dx), Arithmetic::kChain},
                                   {"dweight", arena.Read(args.dweight), Arithmetic::kChain}};
      },
      precision);
}

struct Head {
  Values loss, dx, dweight;
};

// What HeadLoss gives of the whole vocabulary.
Head Whole(Arena& arena, const Shape& shape, const Inputs& inputs, float gradient_scale,
           Precision precision) {
  const Slice loss = arena.Scalar(0), dx = arena.Output(shape.rows * shape.columns);
  const Slice dweight = arena.Input(Values(shape.whole * shape.columns, 0.5f));
  arena.Run(HeadLossArgs{.x = arena.Input(inputs.x),
                         .weight = arena.Input(inputs.weight),
                         .targets = arena.Input(inputs.targets),
                         .loss_sum = loss,
                         .dx = dx,
                         .dweight = dweight,
                         .rows = shape.rows,
                         .columns = shape.columns,
                         .vocabulary = shape.whole,
                         .gradient_scale = gradient_scale,
                         .precision = precision});
  return {{static_cast<float>(arena.ReadScalar(loss))}, arena.Read(dx), arena.Read(dweight)};
}

void AddTo(Values& sum, const Values& part) {
  for (size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
}

// The same by ranks of which each has `shares[rank]` tokens, and the last alone counts the loss.
Head Shared(Arena& arena, const Shape& shape, const Inputs& inputs, const std::vector<int64_t>& shares,
            float gradient_scale, Precision precision) {
  std::vector<Shape> parts;
  std::vector<Inputs> of_parts;
  Values statistics, target_logits(shape.rows);
  int64_t first = 0;
  for (const int64_t share : shares) {
    parts.push_back({shape.rows, shape.columns, first, share, shape.whole});
    const auto begin = inputs.weight.begin() + first * shape.columns;
    of_parts.push_back({inputs.x, Values(begin, begin + share * shape.columns), inputs.targets});
    const HeadStatisticsArgs args = StatisticsOf(arena, parts.back(), of_parts.back(), precision);
    arena.Run(args);
    const Values log_sum_exp = arena.Read(args.log_sum_exp);
    statistics.insert(statistics.end(), log_sum_exp.begin(), log_sum_exp.end());
    AddTo(target_logits, arena.Read(args.target_logit));
    first += share;
  }
  REQUIRE(first == shape.whole);
  statistics.insert(statistics.end(), target_logits.begin(), target_logits.end());
  Head head{.dx = Values(shape.rows * shape.columns)};
  const Slice loss = arena.Scalar(0);
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const Slice log_sum_exp = arena.Output(shape.rows);
    arena.Run(JoinHeadStatisticsArgs{.statistics = arena.Input(statistics),
                                     .log_sum_exp = log_sum_exp,
                                     .loss_sum = rank + 1 == parts.size() ? loss : Slice{},
                                     .members = static_cast<int64_t>(parts.size()),
                                     .rows = shape.rows});
    const HeadGradientArgs args =
        GradientOf(arena, parts[rank], of_parts[rank], log_sum_exp,
                   Values(of_parts[rank].weight.size(), 0.5f), gradient_scale, precision);
    arena.Run(args);
    AddTo(head.dx, arena.Read(args.dx));
    const Values dweight = arena.Read(args.dweight);
    head.dweight.insert(head.dweight.end(), dweight.begin(), dweight.end());
  }
  head.loss = {static_cast<float>(arena.ReadScalar(loss))};
  return head;
}

void CheckSharing(const Shape& shape, const std::vector<int64_t>& shares, float gradient_scale,
                  Precision precision) {
  const uint64_t seed = shape.rows * 1009 + shape.whole;
  CAPTURE(seed, shape.rows, shape.columns, shape.whole, shares, precision);
  std::mt19937_64 random(seed);
  const Inputs inputs = RandomInputs(random, shape);
  Arena reference(ReferenceDevice());
  const Head want = Whole(reference, shape, inputs, gradient_scale, precision);
  const auto check = [&](Arena& arena) {
    const Head got = Shared(arena, shape, inputs, shares, gradient_scale, precision);
    const double tolerance = ToleranceOf(Arithmetic::kChain, precision);
    CheckClose("loss", got.loss, want.loss, tolerance);
    CheckClose("dx", got.dx, want.dx, tolerance);
    CheckClose("dweight", got.dweight, want.dweight, tolerance);
  };
  Arena sharing(ReferenceDevice());
  check(sharing);
  OnDeviceUnderTest(check);
}

TEST_CASE("ranks that share the vocabulary unevenly sum up to HeadLoss", "[conformance]") {
  const std::vector<int64_t> shares = GENERATE(
      values<std::vector<int64_t>>({{7, 3, 1}, {1, 1, 15}, {2000, 3001, 2}, {100, 37, 64}, {24, 24}}));
  const Precision precision = GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16);
  int64_t whole = 0;
  for (const int64_t share : shares) whole += share;
  CheckSharing({19, 33, 0, whole, whole}, shares, 0.37f, precision);
}

TEST_CASE("one rank that has the whole vocabulary gives what HeadLoss gives", "[conformance]") {
  const Precision precision = GENERATE(Precision::kF32, Precision::kBf16, Precision::kF16);
  CheckSharing({13, 33, 0, 101, 101}, {101}, 1, precision);
}

TEST_CASE("a shared head of more logits than a device keeps at once is that of HeadLoss", "[conformance]") {
  CheckSharing({3407, 1, 0, 5003, 5003}, {5003}, 1, Precision::kF32);  // 65 MiB
}

TEST_CASE("what the ops of a shared head cannot be asked is refused by name", "[conformance]") {
  const auto check = [](Arena& arena) {
    const Slice slice = arena.Input(Values(8)), targets = arena.Input(std::vector<int32_t>(2));
    const HeadStatisticsArgs statistics{slice, slice, targets, slice, slice, 2, 3, 0, 0};
    CHECK(arena.ops().HeadStatistics(statistics).message() ==
          "HeadStatistics: vocabulary is 0, must be 1 or more");
    const HeadStatisticsArgs before{slice, slice, targets, slice, slice, 2, 3, -1, 1};
    CHECK(arena.ops().HeadStatistics(before).message() ==
          "HeadStatistics: first_token is -1, must be 0 or more");
    const JoinHeadStatisticsArgs nobody{slice, slice, {}, 0, 2};
    CHECK(arena.ops().JoinHeadStatistics(nobody).message() ==
          "JoinHeadStatistics: members is 0, must be 1 or more");
    const JoinHeadStatisticsArgs too_many{slice, slice, {}, 4, 2};
    CHECK(arena.ops().JoinHeadStatistics(too_many).message() ==
          "JoinHeadStatistics: statistics has 8 elements, the shape needs 10");
    const HeadGradientArgs no_gradient{.x = slice,
                                       .weight = slice,
                                       .targets = targets,
                                       .log_sum_exp = slice,
                                       .dx = slice,
                                       .rows = 2,
                                       .columns = 2,
                                       .vocabulary = 2};
    CHECK(arena.ops().HeadGradient(no_gradient).message() == "HeadGradient: dweight has no buffer");
  };
  Arena reference(ReferenceDevice());
  check(reference);
  OnDeviceUnderTest(check);
}

}  // namespace
}  // namespace medley
