#include "coordinator/predictor/shared_ways.h"

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/alike_routes.h"
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
  const SharedWays ways(problem);
  REQUIRE(ways.count() == 4);
  CHECK(ways.PlaceOf(WayLevel::kHost, 1) == 0);
  CHECK(ways.PlaceOf(WayLevel::kHost, 2) == 1);
  // All of a vector over two hosts comes into each: by both cards in half a second.
  CHECK(ways.BytesPerSecondOf(WayLevel::kHost, 0) == 2 * kBytesPerSecond);
  CHECK(SharedWays::PartOfSum(2 * kBytesPerSecond, 2, 1e8, 0.5) == SharedWays::kAll);
  CHECK(SharedWays::PartOfSum(2 * kBytesPerSecond, 2, 1e8, 1) == SharedWays::kAll / 2);
  CHECK(SharedWays::PartOfSum(2 * kBytesPerSecond, 2, 1e8, 0.1) == SharedWays::kAll);
  CHECK(SharedWays::Slowdown(SharedWays::kAll) == 1);
  CHECK(SharedWays::Slowdown(3 * SharedWays::kAll / 2) == 1.5);
  CHECK(SharedWays(TwoHosts(0)).count() == 0);
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

// Two pipelines from one host to the other; they pass three blocks on either, and nothing but messages takes long. One micro-batch
// takes a message of 16 * 64 elements of f32 there and one back.
Plan TwoPipelines() {
  Plan plan;
  for (const int first : {0, 1}) {
    plan.units.push_back({{absl::StrCat("d", first)}, {{0, 3}}});
    plan.units.push_back({{absl::StrCat("d", first + 2)}, {{3, 6}}});
    plan.routes.push_back({{2 * first, 2 * first + 1}, 1, 1});
  }
  return plan;
}
constexpr double kMessageBytes = 16 * 64 * 4;

// Of messages alone: nothing else takes any time.
PlanningProblem MessagesAlone(int cards, double bytes_per_second) {
  PlanningProblem problem = TwoHosts(cards);
  problem.shape.global_batch_sequences = 2;
  for (DeviceCost& device : problem.devices) device.times = {{{0, 0}, {0, 0}, {0, 0}}};
  const LinkModel none = LinkModel::Line(0, std::numeric_limits<double>::infinity());
  problem.links.SetBetweenHosts(0, 0, {LinkModel::Line(0, bytes_per_second), none});
  return problem;
}

TEST_CASE("messages of several pipelines share a host's cards, or a site's way to others") {
  // Behind them is a sum of scalars.
  const double one = kMessageBytes / 1000;
  const auto about = [](double seconds) { return Approx(seconds).epsilon(0.03); };
  const auto seconds = [](const PlanningProblem& problem) { return StepSeconds(problem, TwoPipelines()); };
  CHECK(seconds(MessagesAlone(0, 1000)) == about(2 * one));  // not known
  CHECK(seconds(MessagesAlone(1, 1000)) == about(2 * 2 * one));
  CHECK(seconds(MessagesAlone(2, 1000)) == about(2 * one));
  PlanningProblem sites = MessagesAlone(2, 1000);
  for (const int d : {2, 3}) sites.devices[d].site = 1;
  CHECK(seconds(sites) == about(2 * 2 * one));
  // Of four hosts at two sites: the cards are enough, the way between the sites is not.
  for (const int d : {1, 3}) sites.devices[d].host += 2;
  sites.links = DeviceLinks({0, 0, 0, 0}, {0, 2, 1, 3}, 1);
  sites.links.SetBetweenHosts(0, 0, MessagesAlone(1, 1000).links.Between(0, 2));
  CHECK(seconds(sites) == about(2 * 2 * one));
  for (const int d : {2, 3}) sites.devices[d].site = 0;
  CHECK(seconds(sites) == about(2 * one));
}

TEST_CASE("two pipelines over one rack's way take longer than over two, also from site to site") {
  const double one = kMessageBytes / 1000;
  const auto about = [](double seconds) { return Approx(seconds).epsilon(0.03); };
  // Each device on a host of its own, with cards enough.
  PlanningProblem problem = MessagesAlone(2, 1000);
  problem.links = DeviceLinks({0, 1, 2, 3}, {0, 1, 2, 3}, 4);
  const LinkCost between = MessagesAlone(1, 1000).links.Between(0, 2);
  for (int d = 0; d < 4; ++d) {
    problem.devices[d].host = d;
    for (int other = 0; other < d; ++other) problem.links.SetBetweenHosts(other, d, between);
  }
  const auto seconds = [&](const std::vector<int>& racks, const std::vector<int>& sites) {
    for (int d = 0; d < 4; ++d) problem.devices[d].rack = racks[d], problem.devices[d].site = sites[d];
    AlikeRoutePredictor predictor(problem);
    const absl::StatusOr<double> alike = predictor.Predict(TwoPipelines());
    REQUIRE(alike.status().ToString() == "OK");
    const double whole = StepSeconds(problem, TwoPipelines());
    CHECK(*alike == Approx(whole));
    return whole;
  };
  CHECK(seconds({0, 0, 0, 0}, {0, 0, 0, 0}) == about(2 * one));
  CHECK(SharedWays(problem).places(WayLevel::kRack) == 0);
  CHECK(seconds({0, 0, 1, 1}, {0, 0, 0, 0}) == about(2 * 2 * one));
  CHECK(SharedWays(problem).places(WayLevel::kRack) == 2);
  CHECK(seconds({0, 1, 2, 3}, {0, 0, 0, 0}) == about(2 * one));
  CHECK(seconds({0, 1, 0, 1}, {0, 0, 0, 0}) == about(2 * one));  // each stays in its rack
  // Between sites both pipelines share the site's way, whatever their racks; one rack a site is no level.
  CHECK(seconds({0, 1, 0, 1}, {0, 0, 1, 1}) == about(2 * 2 * one));
  CHECK(SharedWays(problem).places(WayLevel::kRack) == 4);
  CHECK(seconds({0, 0, 0, 0}, {0, 0, 1, 1}) == about(2 * 2 * one));
  CHECK(SharedWays(problem).places(WayLevel::kRack) == 0);
}

// Two hosts at either of two sites, which a slow line joins, with cards enough; at the first, racks as given.
PlanningProblem TwoSites(int first_rack, int second_rack) {
  PlanningProblem problem = TwoHosts(2);
  const std::vector<DeviceCost> of_two_hosts = problem.devices;
  std::vector<int> sites, hosts;
  for (int site = 0; site < 2; ++site) {
    for (int d = 0; d < 4; ++d) {
      DeviceCost device = of_two_hosts[d];
      device.name = absl::StrCat("d", 4 * site + d);
      device.processor = 4 * site + d;
      device.host = 2 * site + d / 2;
      device.site = site;
      device.rack = site == 1 ? 0 : d < 2 ? first_rack : second_rack;
      problem.devices.push_back(device);
      sites.push_back(site);
      hosts.push_back(device.host);
    }
  }
  problem.devices.erase(problem.devices.begin(), problem.devices.begin() + 4);
  problem.links = DeviceLinks(sites, hosts, 2);
  const LinkModel within = LinkModel::Line(0, 1e13), between = LinkModel::Line(5e-4, kBytesPerSecond);
  for (const int site : {0, 1}) {
    problem.links.SetWithinHosts(site, site, {within, within});
    problem.links.SetBetweenHosts(site, site, {within, within});
  }
  problem.links.SetBetweenHosts(0, 1, {between, between});
  return problem;
}

TEST_CASE("racks named at one site make sums no dearer for another that has one") {
  const auto slowdown = [](const PlanningProblem& problem) {
    const SharedWays ways(problem);
    // Two sums over devices of all hosts, each of which takes three quarters of the line by itself.
    WaysWanted wanted(ways.count());
    std::vector<WayPart> sum;
    ways.AddSum(std::vector<int>{0, 2, 4, 6}, kBytesPerSecond, 4.0 / 3, sum);
    for (int i = 0; i < 2; ++i) wanted.Change(sum, 1);
    return wanted.Slowdown(sum);
  };
  const PlanningProblem unnamed = TwoSites(0, 0), named = TwoSites(0, 1);
  REQUIRE(SharedWays(named).places(WayLevel::kRack) == 3);
  CHECK(slowdown(unnamed) == Approx(1.5));
  CHECK(slowdown(named) == slowdown(unnamed));
  // The one rack of the other site is among those that sums are over, and the ways of the two are taken.
  const SharedWays ways(named);
  const int first = ways.PlaceOf(WayLevel::kRack, 0), only = ways.PlaceOf(WayLevel::kRack, 4);
  CHECK(ways.BytesPerSecondOf(WayLevel::kRack, first) == Approx(1e13));
  CHECK(ways.BytesPerSecondOf(WayLevel::kRack, only) == 0);
  std::vector<WayPart> sum;
  ways.AddSum(std::vector<int>{0, 2, 4}, 1e13, 2, sum);
  int64_t of_first = 0;
  for (const WayPart& part : sum) {
    CHECK(part.way != ways.WayOf(WayLevel::kRack, only, true));
    if (part.way == ways.WayOf(WayLevel::kRack, first, true)) of_first = part.part;
  }
  CHECK(static_cast<double>(of_first) == Approx(2.0 / 3 * SharedWays::kAll).epsilon(1e-3));
  // Pipelines of two stages, whose sums go at once.
  Plan plan;
  for (int d = 0; d < 8; ++d) plan.units.push_back({{absl::StrCat("d", d)}, {{d % 2 * 3, d % 2 * 3 + 3}}});
  for (int route = 0; route < 4; ++route) plan.routes.push_back({{2 * route, 2 * route + 1}, 1, 1});
  const double whole = StepSeconds(unnamed, plan);
  CHECK(StepSeconds(named, plan) == Approx(whole).epsilon(1e-3));
  AlikeRoutePredictor of_unnamed(unnamed), of_named(named);
  const absl::StatusOr<double> before = of_unnamed.Predict(plan), after = of_named.Predict(plan);
  REQUIRE(before.status().ToString() == "OK");
  REQUIRE(after.status().ToString() == "OK");
  CHECK(*after == Approx(*before).epsilon(1e-3));
}

TEST_CASE("of alike pipelines that share ways one is simulated as if all were") {
  for (const int cards : {0, 1, 2}) {
    for (const int site : {0, 1}) {
      PlanningProblem problem = MessagesAlone(cards, 1000);
      for (const int d : {2, 3}) problem.devices[d].site = site;
      INFO(cards << " cards, " << site + 1 << " sites");
      AlikeRoutePredictor predictor(problem);
      const absl::StatusOr<double> alike = predictor.Predict(TwoPipelines());
      REQUIRE(alike.status().ToString() == "OK");
      CHECK(predictor.KindOf(TwoPipelines(), {0}) == predictor.KindOf(TwoPipelines(), {1}));
      CHECK(*alike == Approx(StepSeconds(problem, TwoPipelines())));
    }
  }
}

TEST_CASE("messages and sums share cards in their directions") {
  // A sum of half of both ways, and a message that takes all of one.
  const SharedWays ways(TwoHosts(1));
  WaysWanted wanted(ways.count());
  std::vector<WayPart> message, other_way, sum;
  ways.AddMessage(0, 2, /*to_behind=*/true, kBytesPerSecond, message);
  ways.AddMessage(3, 1, /*to_behind=*/false, kBytesPerSecond, other_way);
  ways.AddSum(std::vector<int>{1, 3}, 1e8, 2, sum);
  wanted.Change(message, 1);
  wanted.Change(other_way, 1);
  CHECK(wanted.Slowdown(message) == 1);
  wanted.Change(sum, 1);
  CHECK(wanted.Slowdown(message) == 1.5);
  CHECK(wanted.Slowdown(sum) == 1.5);
  wanted.Change(message, -1);
  wanted.Change(other_way, -1);
  CHECK(wanted.Slowdown(sum) == 1);
}

}  // namespace
}  // namespace medley
