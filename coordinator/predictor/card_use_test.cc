#include "coordinator/predictor/card_use.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/ir/model/model_share.h"

namespace medley {
namespace {

constexpr double kBytesPerSecond = 1e8;

// Two hosts of two devices, joined by cards of 1e8 bytes a second; nothing else takes long.
PlanningProblem TwoHosts(int cards) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = 4, .hidden = 64, .heads = 4, .feed_forward = 256, .vocabulary = 100, .context = 16};
  problem.shape.sequence = 16;
  problem.shape.global_batch_sequences = 4;
  problem.micro_batch_sizes = {1};
  const std::vector<BlockTimes> times = {{{1e-6, 1e-6}, {1e-6, 1e-6}, {1e-6, 1e-6}}};
  std::vector<int> hosts;
  for (int d = 0; d < 4; ++d) {
    DeviceCost& device = problem.devices.emplace_back();
    device.name = absl::StrCat("d", d);
    device.processor = d;
    device.host = d / 2;
    device.network_cards = cards;
    device.room.memory = GiB(1);
    device.times = times;
    for (const ModelShare& share : EvenShares(problem.shape.model, 2)) {
      if (device.shares.empty() || !(device.shares.front().share == AtOrigin(share)))
        device.shares.push_back({.share = AtOrigin(share), .room = device.room, .times = times});
    }
    hosts.push_back(d / 2);
  }
  problem.links = DeviceLinks({0, 0, 0, 0}, hosts, 1);
  const LinkModel within = LinkModel::Line(0, 1e13), between = LinkModel::Line(0, kBytesPerSecond);
  problem.links.SetWithinHosts(0, 0, {within, within});
  problem.links.SetBetweenHosts(0, 0, {between, between});
  return problem;
}

double StepSeconds(const PlanningProblem& problem, const Plan& plan) {
  const absl::StatusOr<double> seconds = PredictStepSeconds(problem, plan);
  REQUIRE(seconds.status().ToString() == "OK");
  return *seconds;
}

TEST_CASE("a sum takes what it needs of a host's cards, and none where they are not known") {
  PlanningProblem problem = TwoHosts(2);
  const CardUse cards(problem);
  REQUIRE(cards.hosts() == 2);
  CHECK(cards.HostOf(1) == 0);
  CHECK(cards.HostOf(2) == 1);
  // All of a vector over two hosts comes into each: by both cards in half a second.
  CHECK(cards.BytesPerSecond(0) == 2 * kBytesPerSecond);
  CHECK(cards.Part(0, 2, 1e8, 0.5) == CardUse::kAllCards);
  CHECK(cards.Part(0, 2, 1e8, 1) == CardUse::kAllCards / 2);
  CHECK(cards.Part(0, 2, 1e8, 0.1) == CardUse::kAllCards);
  CHECK(CardUse::Slowdown(CardUse::kAllCards) == 1);
  CHECK(CardUse::Slowdown(3 * CardUse::kAllCards / 2) == 1.5);
  CHECK(CardUse(TwoHosts(0)).hosts() == 0);
}

TEST_CASE("ranks of a unit, and stages on one host, share its cards for their sums") {
  // Each host holds all, so all of the gradients cross once each way.
  Plan ranks, stages;
  for (const int first : {0, 2}) {
    const std::string a = absl::StrCat("d", first), b = absl::StrCat("d", first + 1);
    ranks.units.push_back({{a, b}, {{0, 6}}});
    ranks.routes.push_back({{first / 2}, 2, 1});
    stages.units.push_back({{a}, {{0, 3}}});
    stages.units.push_back({{b}, {{3, 6}}});
    stages.routes.push_back({{first, first + 1}, 2, 1});
  }
  for (const Plan* plan : {&ranks, &stages}) {
    INFO((plan == &ranks ? "ranks" : "stages"));
    const double with_one = StepSeconds(TwoHosts(1), *plan), with_two = StepSeconds(TwoHosts(2), *plan);
    CHECK(with_one / with_two > 1.7);
    CHECK(with_one / with_two < 2.05);
    // More cards than sums are of no use.
    CHECK(StepSeconds(TwoHosts(4), *plan) == Approx(with_two).epsilon(1e-6));
  }
  const auto sums = ReductionsOf(TwoHosts(1), ranks), alone = ReductionsOf(TwoHosts(2), ranks);
  REQUIRE(sums.ok());
  REQUIRE(alone.ok());
  CHECK(sums->front().choice.predicted_seconds > 1.7 * alone->front().choice.predicted_seconds);
}

}  // namespace
}  // namespace medley
