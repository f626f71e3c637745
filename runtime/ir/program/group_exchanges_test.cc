#include "runtime/ir/program/group_exchanges.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

const ModelConfig kModel = {
    .layers = 3, .hidden = 8, .heads = 4, .feed_forward = 32, .vocabulary = 20, .context = 8};

GroupPass Pass(InstructionKind kind, BlockRange blocks) {
  return {.kind = kind, .blocks = blocks, .rows = 6, .degree = 2, .activations = Dtype::kBf16};
}

TEST_CASE("a branch sums its output once, and the gradient behind its norm once") {
  using Kind = InstructionKind;
  const std::vector<GroupExchange> two_layers = {{ExchangeKind::kSum, 48, Dtype::kBf16, 4}};
  CHECK(GroupExchanges(kModel, Pass(Kind::kForward, {2, 4})) == two_layers);
  CHECK(GroupExchanges(kModel, Pass(Kind::kBackward, {2, 4})) == two_layers);
  CHECK(GroupExchanges(kModel, Pass(Kind::kInputGradient, {2, 4})) == two_layers);
  CHECK(GroupExchanges(kModel, Pass(Kind::kWeightGradient, {0, 5})).empty());
  GroupPass alone = Pass(Kind::kBackward, {0, 5});
  alone.degree = 1;
  CHECK(GroupExchanges(kModel, alone).empty());
}

TEST_CASE("the embedding is summed in forward, the head in backward, or in the forward of an evaluation") {
  using Kind = InstructionKind;
  CHECK(GroupExchanges(kModel, Pass(Kind::kForward, {0, 1})) ==
        std::vector<GroupExchange>{{ExchangeKind::kSum, 48, Dtype::kBf16, 1}});
  CHECK(GroupExchanges(kModel, Pass(Kind::kBackward, {0, 1})).empty());
  CHECK(GroupExchanges(kModel, Pass(Kind::kForward, {4, 5})).empty());
  CHECK(GroupExchanges(kModel, Pass(Kind::kBackward, {4, 5})) ==
        std::vector<GroupExchange>{{ExchangeKind::kSum, 48, Dtype::kBf16, 1},
                                   {ExchangeKind::kSum, 18, Dtype::kF32, 1}});
  GroupPass evaluation = Pass(Kind::kForward, {0, 5});
  evaluation.purpose = Purpose::kEvaluate;
  CHECK(GroupExchanges(kModel, evaluation) ==
        std::vector<GroupExchange>{{ExchangeKind::kSum, 48, Dtype::kBf16, 7},
                                   {ExchangeKind::kSum, 18, Dtype::kF32, 1}});
}

TEST_CASE(
    "of a micro-batch in parts each branch and the embedding sum one part after another, the head all at "
    "once") {
  using Kind = InstructionKind;
  const auto of = [](Kind kind, BlockRange blocks) {
    GroupPass pass = Pass(kind, blocks);
    pass.sequences = 3;
    pass.parts = 2;
    return GroupExchanges(kModel, pass);
  };
  CHECK(of(Kind::kForward, {0, 4}) == std::vector<GroupExchange>{{ExchangeKind::kSum, 32, Dtype::kBf16, 7},
                                                                 {ExchangeKind::kSum, 16, Dtype::kBf16, 7}});
  CHECK(of(Kind::kBackward, {3, 5}) == std::vector<GroupExchange>{{ExchangeKind::kSum, 32, Dtype::kBf16, 2},
                                                                  {ExchangeKind::kSum, 16, Dtype::kBf16, 2},
                                                                  {ExchangeKind::kSum, 48, Dtype::kBf16, 1},
                                                                  {ExchangeKind::kSum, 18, Dtype::kF32, 1}});
  CHECK(of(Kind::kRecompute, {2, 3}) ==
        std::vector<GroupExchange>{{ExchangeKind::kSum, 32, Dtype::kBf16, 1},
                                   {ExchangeKind::kSum, 16, Dtype::kBf16, 1}});
  CHECK(of(Kind::kWeightGradient, {0, 5}).empty());

  GroupPass of_one_sequence = Pass(Kind::kForward, {1, 2});
  of_one_sequence.parts = 4;
  REQUIRE(of_one_sequence.rows == 6);
  CHECK(GroupExchanges(kModel, of_one_sequence) ==
        std::vector<GroupExchange>{{ExchangeKind::kSum, 2 * 8, Dtype::kBf16, 4},
                                   {ExchangeKind::kSum, 1 * 8, Dtype::kBf16, 4}});
}

TEST_CASE("the pieces of a backward sum together what it sums as a whole") {
  const auto sums = [](BlockRange blocks) {
    int count = 0;
    for (const GroupExchange& exchange : GroupExchanges(kModel, Pass(InstructionKind::kBackward, blocks)))
      count += exchange.count;
    return count;
  };
  CHECK(sums({0, 5}) == 8);
  for (int cut = 1; cut < 5; ++cut) CHECK(sums({0, cut}) + sums({cut, 5}) == 8);
}

TEST_CASE("in sequence parallelism sums are scattered, and what linear maps take is gathered") {
  using Kind = InstructionKind;
  const auto of = [](Kind kind, BlockRange blocks) {
    GroupPass pass = Pass(kind, blocks);
    pass.sequence_parallel = true;
    return GroupExchanges(kModel, pass);
  };
  const auto scattered = [](int count) {
    return GroupExchange{ExchangeKind::kScatter, 48, Dtype::kBf16, count};
  };
  const auto gathered = [](int count) {
    return GroupExchange{ExchangeKind::kGather, 48, Dtype::kBf16, count};
  };
  const GroupExchange statistics = {ExchangeKind::kSum, 18, Dtype::kF32, 1};
  using Exchanges = std::vector<GroupExchange>;
  // Two layers, of two branches each.
  CHECK(of(Kind::kForward, {1, 3}) == Exchanges{scattered(4), gathered(4)});
  CHECK(of(Kind::kInputGradient, {1, 3}) == Exchanges{scattered(4), gathered(4)});
  CHECK(of(Kind::kWeightGradient, {1, 3}) == Exchanges{gathered(8)});
  // What the gradients need both is gathered once where they are one pass.
  CHECK(of(Kind::kBackward, {1, 3}) == Exchanges{scattered(4), gathered(8)});
  CHECK(of(Kind::kRecompute, {1, 2}) == Exchanges{scattered(1), gathered(2)});
  CHECK(of(Kind::kForward, {0, 1}) == Exchanges{scattered(1)});
  CHECK(of(Kind::kBackward, {0, 1}) == Exchanges{gathered(1)});
  CHECK(of(Kind::kForward, {4, 5}).empty());
  CHECK(of(Kind::kBackward, {4, 5}) == Exchanges{scattered(1), gathered(1), statistics});
  // A norm of a GPT-2 has 8 weights and 8 biases.
  CHECK(of(Kind::kJoinGradients, {1, 5}) == Exchanges{{ExchangeKind::kSum, 16, Dtype::kF32, 7}});
  CHECK(of(Kind::kJoinGradients, {0, 1}).empty());
  CHECK(scattered(1).bytes() == Bytes{96});
  GroupPass evaluation = Pass(Kind::kForward, {0, 5});
  evaluation.sequence_parallel = true;
  evaluation.purpose = Purpose::kEvaluate;
  CHECK(GroupExchanges(kModel, evaluation) == Exchanges{scattered(7), gathered(7), statistics});
}

}  // namespace
}  // namespace medley
