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
  const std::vector<GroupExchange> two_layers = {{48, Dtype::kBf16, 4}};
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
        std::vector<GroupExchange>{{48, Dtype::kBf16, 1}});
  CHECK(GroupExchanges(kModel, Pass(Kind::kBackward, {0, 1})).empty());
  CHECK(GroupExchanges(kModel, Pass(Kind::kForward, {4, 5})).empty());
  CHECK(GroupExchanges(kModel, Pass(Kind::kBackward, {4, 5})) ==
        std::vector<GroupExchange>{{48, Dtype::kBf16, 1}, {18, Dtype::kF32, 1}});
  GroupPass evaluation = Pass(Kind::kForward, {0, 5});
  evaluation.purpose = Purpose::kEvaluate;
  CHECK(GroupExchanges(kModel, evaluation) ==
        std::vector<GroupExchange>{{48, Dtype::kBf16, 7}, {18, Dtype::kF32, 1}});
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

}  // namespace
}  // namespace medley
