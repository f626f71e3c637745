#include "coordinator/planner/planner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "coordinator/planner/brute_force.h"
#include "coordinator/planner/problem_site.h"
#include "coordinator/planner/random_problem.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/plan/check_plan.h"

namespace medley {
namespace {

constexpr RandomProblemOptions kFewKinds = {.min_devices = 5,
                                            .max_devices = 8,
                                            .kinds = 3,
                                            .max_layers = 2,
                                            .max_micro_batches = 4,
                                            .processors = RandomProcessors::kOwn,
                                            .hosts = RandomHosts::kOwn};

bool HasUnlikeSizes(const Plan& plan) {
  return std::any_of(plan.routes.begin(), plan.routes.end(), [&](const Route& route) {
    return route.micro_batch_sequences != plan.routes[0].micro_batch_sequences;
  });
}

// What was chosen for the problem. Counts the problems that were compared, so that a test cannot pass by comparing
// none. True: no plan of one micro-batch size is as fast.
bool CompareWithBruteForce(const PlanningProblem& problem, const absl::StatusOr<ChosenPlan>& chosen,
                           SameKind same_kind, int64_t most_plans, int& compared) {
  if (chosen.ok()) {
    for (const PlanViolation& violation : CheckPlan(chosen->plan, problem.shape, SiteOf(problem))) {
      FAIL_CHECK(violation.detail);
    }
    CHECK(*PredictStepSeconds(problem, chosen->plan) == chosen->step_seconds);
    CHECK(chosen->lower_bound_seconds <= chosen->step_seconds);
  } else {
    CHECK(absl::IsResourceExhausted(chosen.status()));
  }
  const BruteForce brute = LeastSeconds(problem, same_kind, most_plans);
  if (!brute.complete) return false;
  ++compared;
  REQUIRE(chosen.ok() == brute.least_seconds.has_value());
  if (!chosen.ok()) return false;
  CAPTURE(Describe(chosen->plan), brute.plans);
  CHECK(chosen->proven_optimal);
  CHECK(chosen->step_seconds == Approx(*brute.least_seconds).epsilon(1e-9));
  return HasUnlikeSizes(chosen->plan);
}

TEST_CASE("the chosen plan is valid and as fast as the best of all plans of up to 4 devices", "[property]") {
  int compared = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed);
    CompareWithBruteForce(problem, ChoosePlan(problem), SameKind::kAllOrders, 40'000, compared);
  }
  CHECK(compared > 90);
}

TEST_CASE("so it is where batches are large enough for routes of unlike micro-batch sizes", "[property]") {
  const RandomProblemOptions options = {
      .min_devices = 2, .max_devices = 3, .max_layers = 2, .max_micro_batches = 16};
  int compared = 0, unlike_sizes = 0;
  for (uint64_t seed = 5000; seed < 5300; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, options);
    if (problem.micro_batch_sizes.size() < 2) continue;
    unlike_sizes +=
        CompareWithBruteForce(problem, ChoosePlan(problem), SameKind::kAllOrders, 40'000, compared);
  }
  CHECK(compared > 60);
  CHECK(unlike_sizes > 3);
}

TEST_CASE("so it is where some devices refuse buffers for the parameters of all blocks", "[property]") {
  int compared = 0, refused = 0, bound = 0;
  for (uint64_t seed = 6000; seed < 6080; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = RandomProblem(seed, {.memory = RandomMemory::kPlenty});
    const absl::StatusOr<ChosenPlan> free = ChoosePlan(problem);
    REQUIRE(free.ok());
    std::mt19937_64 random(seed);
    const auto whole = static_cast<double>(4 * ModelElements(problem.shape.model));
    for (DeviceCost& device : problem.devices) {
      const double share = std::uniform_real_distribution<double>(0.4, 1.4)(random);
      if (share < 1) device.room.largest_buffer = {static_cast<int64_t>(share * whole)};
    }
    const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
    CompareWithBruteForce(problem, chosen, SameKind::kAllOrders, 40'000, compared);
    if (!chosen.ok()) {
      ++refused;
      CHECK_THAT(std::string(chosen.status().message()),
                 Catch::Contains("lacks ") && Catch::Contains(" in one buffer)"));
    } else if (chosen->step_seconds > free->step_seconds * (1 + 1e-9)) {
      ++bound;
    }
  }
  CHECK(compared > 30);
  CHECK(refused > 2);
  CHECK(bound > 5);
}

TEST_CASE("the chosen plan is as fast as the best of all plans of up to 8 devices of few kinds",
          "[property]") {
  int compared = 0;
  for (uint64_t seed = 1000; seed < 1060; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, kFewKinds);
    CompareWithBruteForce(problem, ChoosePlan(problem), SameKind::kInOrder, 20'000, compared);
  }
  CHECK(compared > 25);
}

TEST_CASE("under limits to devices and their price the chosen plan is the best of all that keep them",
          "[property]") {
  int compared = 0, refused = 0, bound = 0;
  for (uint64_t seed = 2000; seed < 2150; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = RandomProblem(seed, {.prices = RandomPrices::kWithLimits});
    const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
    CompareWithBruteForce(problem, chosen, SameKind::kAllOrders, 40'000, compared);
    const PlanConstraints limits = problem.constraints;
    problem.constraints.most_price_per_hour = 0;
    problem.constraints.most_devices = 0;
    const absl::StatusOr<ChosenPlan> free = ChoosePlan(problem);
    if (!chosen.ok()) {
      if (limits.limit_devices())
        CHECK_THAT(std::string(chosen.status().message()), Catch::Contains("constraints.most_"));
      if (free.ok()) ++refused;
      continue;
    }
    CHECK(
        limits.Allow(static_cast<int>(DevicesOf(chosen->plan).size()), PricePerHour(problem, chosen->plan)));
    if (chosen->step_seconds > free->step_seconds * (1 + 1e-9)) ++bound;
  }
  CHECK(compared > 90);
  CHECK(refused > 5);
  CHECK(bound > 30);
}

TEST_CASE("limits are kept by the best of all plans of up to 8 devices of few kinds", "[property]") {
  RandomProblemOptions options = kFewKinds;
  options.prices = RandomPrices::kWithLimits;
  int compared = 0;
  for (uint64_t seed = 3000; seed < 3060; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, options);
    CompareWithBruteForce(problem, ChoosePlan(problem), SameKind::kInOrder, 60'000, compared);
  }
  CHECK(compared > 25);
}

TEST_CASE("plans of each kind, and those of many devices, keep the limits, too", "[property]") {
  const auto keeps = [](const PlanningProblem& problem, const Plan& plan) {
    return problem.constraints.Allow(static_cast<int>(DevicesOf(plan).size()), PricePerHour(problem, plan));
  };
  int kept = 0;
  for (uint64_t seed = 4000; seed < 4030; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, {.prices = RandomPrices::kWithLimits});
    const absl::StatusOr<std::vector<Alternative>> alternatives = BestOfEachKind(problem);
    REQUIRE(alternatives.ok());
    for (const Alternative& alternative : *alternatives) {
      if (!alternative.plan.ok()) continue;
      CHECK(keeps(problem, alternative.plan->plan));
      ++kept;
    }
  }
  CHECK(kept > 30);
  for (uint64_t seed = 4100; seed < 4110; ++seed) {
    CAPTURE(seed);
    RandomProblemOptions options = AlikeDevices(20);
    options.prices = RandomPrices::kWithLimits;
    const PlanningProblem problem = RandomProblem(seed, options);
    const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
    if (chosen.ok()) CHECK(keeps(problem, chosen->plan));
    if (!chosen.ok()) CHECK(absl::IsResourceExhausted(chosen.status()));
  }
}

TEST_CASE("no plan is predicted to be faster than the lower bound, also when the search is cut short") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, {.memory = RandomMemory::kPlenty});
    const auto cut = ChoosePlan(problem, {.max_simulations = 3});
    const auto whole = ChoosePlan(problem);
    REQUIRE(cut.ok());
    REQUIRE(whole.ok());
    CHECK(cut->lower_bound_seconds <= whole->step_seconds * (1 + 1e-9));
    CHECK(cut->step_seconds >= whole->step_seconds * (1 - 1e-9));
    if (cut->proven_optimal) CHECK(cut->step_seconds == Approx(whole->step_seconds).epsilon(1e-9));
  }
}

TEST_CASE("replicas that share the optimizer's state leave out devices that are no help") {
  // Six devices, five micro-batches, and updates that take several times as long as passes.
  const PlanningProblem problem = SmallProblem(10097);
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  REQUIRE(chosen.ok());
  const BruteForce brute = LeastSeconds(problem, SameKind::kInOrder, 100'000);
  REQUIRE(brute.complete);
  CHECK(chosen->step_seconds <= *brute.least_seconds * (1 + 1e-9));
}

TEST_CASE("planning that was stopped before ends at once, however long it would take") {
  PlanningProblem problem = RandomProblem(5, AlikeDevices(16));
  problem.micro_batch_sizes = {problem.micro_batch_sizes.front()};
  for (DeviceCost& device : problem.devices) device.times.resize(1);
  problem.shape.global_batch_sequences = 1'000'000 * problem.micro_batch_sizes.front();
  const std::atomic<bool> stop = true;
  const SearchLimits limits{.stop = &stop};
  CHECK(absl::IsCancelled(ChoosePlan(problem, limits).status()));
  (void)FitsWithoutSharing(problem, limits);
  CHECK(SharesToMeasure(problem, limits).empty());
  const absl::StatusOr<std::vector<Alternative>> alternatives = BestOfEachKind(problem, limits);
  REQUIRE(alternatives.ok());
  for (const Alternative& alternative : *alternatives) CHECK(absl::IsCancelled(alternative.plan.status()));
}

TEST_CASE("many micro-batches are dealt out by speed, however many are dealt at once") {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = 2, .hidden = 8, .heads = 2, .feed_forward = 16, .vocabulary = 16, .context = 8};
  problem.shape.sequence = 8;
  problem.shape.global_batch_sequences = 1100;
  problem.micro_batch_sizes = {1};
  problem.constraints.max_stages = 1;
  for (int d = 0; d < 3; ++d) {
    DeviceCost& device = problem.devices.emplace_back();
    device.name = "n/" + std::to_string(d);
    device.kind = std::to_string(d);
    device.processor = d;
    device.room.memory = GiB(1);
    const double seconds = std::vector<double>{1, 2, 3}[d];
    device.times = {{{}, {seconds, 2 * seconds, seconds}, {}}};
  }
  problem.links = DeviceLinks(3, {LinkModel::Line(0, 1e15), LinkModel::Line(0, 1e15)});
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem);
  REQUIRE(chosen.status().ToString() == "OK");
  std::map<std::string, int> micro_batches;
  for (const Route& route : chosen->plan.routes)
    micro_batches[chosen->plan.units[route.units[0].value()].devices[0]] = route.micro_batches;
  CHECK(micro_batches == std::map<std::string, int>{{"n/0", 600}, {"n/1", 300}, {"n/2", 200}});
  CHECK(chosen->step_seconds == Approx(600 * 6));
}

TEST_CASE("planning that is stopped on its way gives a valid plan and a bound that holds", "[property]") {
  int ended_early = 0;
  // A machine that keeps the thread which stops them from running is asked more often.
  for (uint64_t seed = 0; seed < 60 || (ended_early == 0 && seed < 1000); ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, {.min_devices = 4, .max_devices = 6});
    const absl::StatusOr<ChosenPlan> best = ChoosePlan(problem);
    std::atomic<bool> runs = false, stop = false;
    std::thread stopper([&] {
      runs = true;
      for (uint64_t i = 0; i < seed % 60; ++i) std::this_thread::yield();
      stop = true;
    });
    while (!runs) std::this_thread::yield();
    const absl::StatusOr<ChosenPlan> stopped = ChoosePlan(problem, {.stop = &stop});
    stopper.join();
    if (!stopped.ok()) {
      CHECK((absl::IsCancelled(stopped.status()) || stopped.status() == best.status()));
      ended_early += absl::IsCancelled(stopped.status());
      continue;
    }
    REQUIRE(best.ok());
    for (const PlanViolation& violation : CheckPlan(stopped->plan, problem.shape, SiteOf(problem)))
      FAIL_CHECK(violation.detail);
    CHECK(stopped->step_seconds >= best->step_seconds * (1 - 1e-9));
    CHECK(stopped->lower_bound_seconds <= best->step_seconds * (1 + 1e-9));
    if (stopped->proven_optimal) CHECK(stopped->step_seconds == Approx(best->step_seconds).epsilon(1e-9));
    ended_early += best->proven_optimal && !stopped->proven_optimal;
  }
  CHECK(ended_early > 0);
}

TEST_CASE("equal problems give equal plans") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const auto first = ChoosePlan(RandomProblem(seed)), second = ChoosePlan(RandomProblem(seed));
    REQUIRE(first.ok() == second.ok());
    if (!first.ok()) continue;
    CHECK(first->plan == second->plan);
    CHECK(first->step_seconds == second->step_seconds);
    CHECK(first->simulated_plans == second->simulated_plans);
  }
}

TEST_CASE("a single device gets everything") {
  const PlanningProblem problem = RandomProblem(3, {.max_devices = 1, .memory = RandomMemory::kPlenty});
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.ok());
  REQUIRE(chosen->plan.units.size() == 1);
  CHECK(chosen->plan.units[0].chunks[0] == BlockRange{0, problem.shape.model.blocks()});
  CHECK(chosen->proven_optimal);
}

TEST_CASE("a device that would only slow the others down is left out") {
  PlanningProblem problem = RandomProblem(5, {.min_devices = 2,
                                              .max_devices = 2,
                                              .kinds = 1,
                                              .processors = RandomProcessors::kOwn,
                                              .memory = RandomMemory::kPlenty});
  for (BlockTimes& times : problem.devices[1].times) {
    times = {{1e3, 1e3}, {1e3, 1e3}, {1e3, 1e3}};
  }
  const auto chosen = ChoosePlan(problem);
  REQUIRE(chosen.ok());
  REQUIRE(chosen->plan.units.size() == 1);
  CHECK(chosen->plan.units[0].devices[0] == problem.devices[0].name);
}

TEST_CASE("a device is left out that slows the others down by more than it does") {
  PlanningProblem problem = RandomProblem(5, AlikeDevices(3));
  problem.links = DeviceLinks(3);
  problem.shape.global_batch_sequences = 6;
  problem.micro_batch_sizes = {1};
  for (DeviceCost& device : problem.devices) {
    device.times.resize(1);
    device.host = 0;
    device.shared_with = 2;
    device.shared_slowdown = 1.2;
  }
  CHECK(ChoosePlan(problem)->plan.units.size() == 3);
  for (DeviceCost& device : problem.devices) device.shared_slowdown = 9;
  const auto alone = ChoosePlan(problem);
  REQUIRE(alone.ok());
  CHECK(alone->plan.units.size() == 1);
  CHECK(alone->proven_optimal);
}

TEST_CASE("constraints on routes and stages are kept") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = RandomProblem(seed, {.min_devices = 3, .memory = RandomMemory::kPlenty});
    problem.constraints.max_routes = 1 + static_cast<int>(seed % 2);
    problem.constraints.max_stages = 1 + static_cast<int>(seed % 3);
    const auto chosen = ChoosePlan(problem);
    REQUIRE(chosen.ok());
    CHECK(static_cast<int>(chosen->plan.routes.size()) <= problem.constraints.max_routes);
    for (const Route& route : chosen->plan.routes) {
      CHECK(static_cast<int>(route.units.size()) <= problem.constraints.max_stages);
    }
  }
}

TEST_CASE("where nothing fits, the planner says how much is missing and where") {
  PlanningProblem problem = RandomProblem(7, {.min_devices = 2});
  for (DeviceCost& device : problem.devices) device.room.memory = device.room.workspace + Bytes{100};
  const auto chosen = ChoosePlan(problem);
  REQUIRE(absl::IsResourceExhausted(chosen.status()));
  CHECK_THAT(std::string(chosen.status().message()), Catch::Contains("lacks") && Catch::Contains("n/"));
}

TEST_CASE("a problem that makes no sense is refused by the name of the field") {
  const PlanningProblem good = RandomProblem(11, {.min_devices = 2});
  const auto refusal = [&](const auto& change) {
    PlanningProblem bad = good;
    change(bad);
    const absl::Status status = ChoosePlan(bad).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  using Catch::Contains;
  CHECK_THAT(refusal([](PlanningProblem& p) { p.devices.clear(); }), Contains("devices"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.shape.model.layers = 0; }), Contains("layers"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.micro_batch_sizes = {7919}; }), Contains("7919"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.micro_batch_sizes.clear(); }), Contains("micro_batch_sizes"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.devices[1].times.clear(); }), Contains("devices[1].times"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.devices[1].name = p.devices[0].name; }), Contains("twice"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.devices[0].times[0].layer.forward_seconds = -1; }),
             Contains("-1"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.devices[0].shared_slowdown = 0.9; }),
             Contains("devices[0].shared_slowdown: 0.9"));
  CHECK_THAT(
      refusal([](PlanningProblem& p) { p.devices[0].shared_slowdown = 2, p.devices[0].shared_with = 0; }),
      Contains("devices[0].shared_with: 0"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.links = DeviceLinks(2); }), Contains("links"));
  CHECK_THAT(refusal([](PlanningProblem& p) {
               p.links.Mutable(0, 1).transfer = {{{1, 2}, {2, 1}}};
             }),
             Contains("links[0][1].transfer[1].seconds: 1 after 2"));
  CHECK_THAT(refusal([](PlanningProblem& p) {
               p.links.Mutable(1, 2).exchange = {{{-1, 2}}};
             }),
             Contains("links[1][2].exchange[0].bytes: -1"));
  CHECK_THAT(refusal([](PlanningProblem& p) {
               p.links.Mutable(0, 2).all_reduce = {{1, {{{8, 2}}}}};
             }),
             Contains("links[0][2].all_reduce[0].members: 1; must be at least 2"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.devices[1].price_per_hour = -2; }),
             Contains("devices[1].price_per_hour: -2"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.constraints.most_price_per_hour = NAN; }),
             Contains("constraints.most_price_per_hour: nan"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.constraints.most_devices = -1; }),
             Contains("constraints.most_devices: -1"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.wire_bytes_per_element = 3; }),
             Contains("wire_bytes_per_element: 3"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.constraints.schedules.clear(); }), Contains("schedules"));
  CHECK_THAT(refusal([](PlanningProblem& p) { p.constraints.schedules = {Schedule::kZeroBubbleH1}; }),
             Contains("constraints.schedules: zb-h1"));
}

}  // namespace
}  // namespace medley
