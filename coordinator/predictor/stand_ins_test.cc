#include "coordinator/predictor/stand_ins.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/predict.h"
#include "runtime/ir/program/random_plan.h"

namespace medley {
namespace {

// Devices that share an optimizer's state own an element more or less; a sum may begin at another of its members.
constexpr double kSame = 5e-4;

// A random plan of any form several times, each on a host of its own, and what its devices take.
struct ManyTimes {
  ManyTimes(uint64_t seed, int copies, int cards) {
    PlannedShape planned = seed % 2 == 0 ? RandomPlan(seed) : RandomWidePlan(seed);
    const ModelConfig& model = planned.shape.model;
    Plan& once = planned.plan;
    devices_once = RankCount(once);
    const bool on_peers = seed % 5 == 0 && MoveLayersToPeers(once, model, seed);
    if (seed % 5 == 1) MoveLayersToHost(once, model, seed);
    if (seed % 5 == 2) MoveActivationsToHost(once, model, seed);
    if (seed % 3 == 0 && !on_peers) ShardOptimizer(once, model, seed);
    plan = once;
    plan.units.clear();
    plan.routes.clear();
    problem.shape = planned.shape;
    problem.shape.global_batch_sequences *= copies;
    problem.micro_batch_sizes = {1, 2, 3, 4, 5, 6};
    std::vector<int> ends, hosts;
    for (int copy = 0; copy < copies; ++copy) {
      const int first = static_cast<int>(plan.units.size());
      std::mt19937_64 random(seed);
      for (Rank rank = 0; rank < RankCount(once); ++rank) {
        AddDevice(once, rank, copy, random);
        problem.devices.back().network_cards = cards;
        ends.push_back(rank);
        hosts.push_back(copy);
      }
      for (const Unit& unit : once.units) {
        Unit& added = plan.units.emplace_back(unit);
        for (std::string& name : added.devices) name = absl::StrCat("c", copy, "/", name);
      }
      for (const Route& route : once.routes) {
        Route& added = plan.routes.emplace_back(route);
        for (UnitId& unit : added.units) unit = unit + first;
      }
    }
    problem.links = DeviceLinks(ends, hosts, RankCount(once));
    for (LinkCost& link : problem.links.each())
      link = {LinkModel::Line(0.02, 3000), LinkModel::Line(0.01, 2000)};
  }

  void AddDevice(const Plan& once, Rank rank, int copy, std::mt19937_64& random) {
    const auto real = [&] { return std::uniform_real_distribution<double>(0.5, 2)(random); };
    DeviceCost& device = problem.devices.emplace_back();
    device.name = absl::StrCat("c", copy, "/", DeviceOf(once, rank));
    device.kind = absl::StrCat("k", rank.value());
    device.processor = static_cast<int>(problem.devices.size());
    device.host = copy;
    device.fetch_bytes_per_second = device.store_bytes_per_second = 1e4;
    ShareCost cost{.share = AtOrigin(ShareOf(once, rank, problem.shape.model))};
    for (const int size : problem.micro_batch_sizes) {
      const double layer = size * real();
      cost.times.push_back({{0.1, 0.2, 0.2}, {layer, 2 * layer, layer}, {0, 0.5, 0}});
    }
    cost.update_seconds_per_parameter = 1e-6;
    cost.norm_seconds_per_parameter = 1e-6;
    device.update_seconds_per_parameter = device.norm_seconds_per_parameter = 1e-6;
    if (cost.share == WholeModel(problem.shape.model)) device.times = cost.times;
    device.shares.push_back(cost);
  }
  int devices_once = 0;
  PlanningProblem problem;
  Plan plan;
};

// Of all ranks, and of those that tell of others.
struct BothWays {
  BothWays(const PlanningProblem& problem, const Plan& plan) {
    const auto predicted_whole = PredictStep(problem, plan);
    const auto predicted_some = PredictStep(problem, plan, /*most_simulated=*/0);
    REQUIRE(predicted_whole.status().ToString() == "OK");
    REQUIRE(predicted_some.status().ToString() == "OK");
    whole = *predicted_whole;
    some = *predicted_some;
  }
  StepPrediction whole, some;
};

TEST_CASE("ranks that do the same are simulated once for all, with the times that each has") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const ManyTimes many(seed, /*copies=*/3, /*cards=*/0);
    INFO("seed " << seed << ", " << Describe(many.plan));
    const auto [whole, some] = BothWays(many.problem, many.plan);
    const std::set<Rank> simulated(some.stand_ins.begin(), some.stand_ins.end());
    // One copy, or two where one of them answers for norms of what all hold.
    CHECK(simulated.size() <= 2 * static_cast<size_t>(many.devices_once));
    CHECK(some.step_seconds == Approx(whole.step_seconds).epsilon(kSame));
    for (Rank rank = 0; rank < RankCount(many.plan); ++rank) {
      const RankPrediction &one = some.ranks[rank], &other = whole.ranks[rank];
      CHECK(one.device == other.device);
      CHECK(one.busy_seconds == Approx(other.busy_seconds).epsilon(kSame));
      // Shares of the optimizer's state are cut into whole elements.
      CHECK(std::abs((one.peak_memory - other.peak_memory).value) <= 8 * 2 * 64);
      REQUIRE(one.timeline.size() == other.timeline.size());
      for (size_t i = 0; i < one.timeline.size(); ++i) {
        CHECK(one.timeline[i].start_seconds ==
              Approx(other.timeline[i].start_seconds).margin(kSame * whole.step_seconds));
        CHECK(one.timeline[i].end_seconds ==
              Approx(other.timeline[i].end_seconds).margin(kSame * whole.step_seconds));
      }
    }
  }
}

TEST_CASE("messages of those that are not simulated take their part of what they share") {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const ManyTimes many(seed, /*copies=*/4, /*cards=*/1);
    INFO("seed " << seed << ", " << Describe(many.plan));
    PlanningProblem problem = many.problem;
    // Two copies on each host, which reach others by one card, and the next stage is on the next host.
    const auto devices = static_cast<int>(problem.devices.size());
    std::vector<int> ends, hosts;
    for (int d = 0; d < devices; ++d) {
      const int copy = d / many.devices_once, rank = d % many.devices_once;
      problem.devices[d].host = copy / 2 * many.devices_once + rank;
      hosts.push_back(problem.devices[d].host);
      ends.push_back(rank);
    }
    problem.links = DeviceLinks(ends, hosts, many.devices_once);
    for (LinkCost& link : problem.links.each())
      link = {LinkModel::Line(0.02, 300), LinkModel::Line(0.01, 2000)};
    const auto [whole, some] = BothWays(problem, many.plan);
    CHECK(some.step_seconds == Approx(whole.step_seconds).epsilon(0.02));
  }
}

TEST_CASE("sums over more than are chosen for one by one are nearly as they would be") {
  int compared = 0;
  for (uint64_t seed = 0; seed < 200 && compared < 8; ++seed) {
    const ManyTimes many(seed, /*copies=*/80, /*cards=*/static_cast<int>(seed % 3));
    if (many.devices_once > 3) continue;
    INFO("seed " << seed << ", " << many.devices_once << " devices, 80 times");
    const auto [whole, some] = BothWays(many.problem, many.plan);
    ++compared;
    CHECK(some.step_seconds == Approx(whole.step_seconds).epsilon(0.08));
  }
  CHECK(compared == 8);
}

TEST_CASE("plans that stand-ins cannot tell of are simulated whole") {
  ManyTimes many(1, /*copies=*/2, /*cards=*/0);
  for (DeviceCost& device : many.problem.devices) device.processor = 0;
  const auto [whole, some] = BothWays(many.problem, many.plan);
  CHECK(some.step_seconds == whole.step_seconds);
  CHECK(some.stand_ins == whole.stand_ins);
}

}  // namespace
}  // namespace medley
