#include "coordinator/planner/pareto.h"

#include <catch2/catch.hpp>
#include <map>
#include <thread>

#include "coordinator/planner/brute_force.h"
#include "coordinator/planner/random_problem.h"
#include "coordinator/predictor/predict.h"

namespace medley {
namespace {

constexpr RandomProblemOptions kPriced = {.prices = RandomPrices::kWithLimits};

// The least step of each price, of all plans that none is as good as in both; by price. Empty and `complete` false:
// there are too many plans.
struct Front {
  std::map<double, double> step_seconds_by_price;
  bool complete = true;
};
Front FrontByBruteForce(const PlanningProblem& problem, int most_plans) {
  std::map<double, double> fastest;
  int plans = 0;
  VisitEveryPlan(problem, SameKind::kAllOrders, [&](const Plan& plan) {
    if (++plans > most_plans) return false;
    const absl::StatusOr<double> seconds = PredictStepSeconds(problem, plan);
    if (!seconds.ok()) return true;
    const double price = PricePerHour(problem, plan);
    const auto known = fastest.find(price);
    if ((known == fastest.end() || *seconds < known->second) && FitsMemory(problem, plan))
      fastest[price] = *seconds;
    return true;
  });
  if (plans > most_plans) return {{}, false};
  Front front;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [price, seconds] : fastest) {
    if (seconds >= least * (1 - 1e-9)) continue;
    least = seconds;
    front.step_seconds_by_price[price] = seconds;
  }
  return front;
}

TEST_CASE("the list has every trade of time against price that there is", "[property]") {
  int compared = 0, longest = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, kPriced);
    const Front front = FrontByBruteForce(problem, 20'000);
    if (!front.complete) continue;
    const absl::StatusOr<ParetoList> list = ListTimeAgainstPrice(problem);
    REQUIRE(list.ok() == !front.step_seconds_by_price.empty());
    if (!list.ok()) continue;
    ++compared;
    CHECK(list->complete);
    REQUIRE(list->points.size() == front.step_seconds_by_price.size());
    auto point = list->points.rbegin();
    for (const auto& [price, seconds] : front.step_seconds_by_price) {
      CHECK(point->price_per_hour == Approx(price));
      CHECK(point->chosen.step_seconds == Approx(seconds).epsilon(1e-9));
      CHECK(PricePerHour(problem, point->chosen.plan) == point->price_per_hour);
      ++point;
    }
    longest = std::max(longest, static_cast<int>(list->points.size()));
  }
  CHECK(compared > 60);
  CHECK(longest > 3);
}

TEST_CASE(
    "of many devices the list has few plans, none as good as another in both, and begins with the fastest") {
  const RandomProblemOptions options = {.min_devices = 10,
                                        .max_devices = 12,
                                        .kinds = 3,
                                        .max_layers = 2,
                                        .max_micro_batches = 4,
                                        .processors = RandomProcessors::kOwn,
                                        .hosts = RandomHosts::kOwn,
                                        .memory = RandomMemory::kPlenty,
                                        .prices = RandomPrices::kWithLimits};
  const SearchLimits limits = {.max_simulated_instructions = 300'000};
  size_t longest = 0;
  for (uint64_t seed = 100; seed < 106; ++seed) {
    CAPTURE(seed);
    PlanningProblem problem = RandomProblem(seed, options);
    problem.constraints.most_devices = 0;
    problem.constraints.most_price_per_hour = 0;
    const absl::StatusOr<ParetoList> list = ListTimeAgainstPrice(problem, limits);
    const absl::StatusOr<ChosenPlan> fastest = ChoosePlan(problem, limits);
    REQUIRE(list.ok());
    REQUIRE(fastest.ok());
    CHECK(list->points.front().chosen.step_seconds <= fastest->step_seconds * (1 + 1e-9));
    CHECK(list->points.size() <= kMostBudgets + 1);
    for (size_t i = 1; i < list->points.size(); ++i) {
      CHECK(list->points[i].price_per_hour < list->points[i - 1].price_per_hour);
      CHECK(list->points[i].chosen.step_seconds > list->points[i - 1].chosen.step_seconds);
    }
    longest = std::max(longest, list->points.size());
    if (seed >= 102) continue;
    const absl::StatusOr<ParetoList> again = ListTimeAgainstPrice(problem, limits);
    REQUIRE(again.ok());
    REQUIRE(again->points.size() == list->points.size());
    for (size_t i = 0; i < list->points.size(); ++i)
      CHECK(again->points[i].chosen.plan == list->points[i].chosen.plan);
  }
  CHECK(longest > 2);
}

TEST_CASE("where nothing has a price the fastest plan is all there is") {
  const PlanningProblem problem = RandomProblem(3, {.memory = RandomMemory::kPlenty});
  const absl::StatusOr<ParetoList> list = ListTimeAgainstPrice(problem);
  REQUIRE(list.ok());
  REQUIRE(list->points.size() == 1);
  CHECK(list->points[0].chosen.plan == ChoosePlan(problem)->plan);
  CHECK(list->complete);
}

TEST_CASE("plans that take too long are left out, and that makes the list no less complete") {
  int shorter = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const PlanningProblem problem = RandomProblem(seed, kPriced);
    const absl::StatusOr<ParetoList> all = ListTimeAgainstPrice(problem);
    if (!all.ok() || all->points.size() < 3) continue;
    const double slowest_seconds = all->points[1].chosen.step_seconds * (1 + 1e-9);
    const absl::StatusOr<ParetoList> some = ListTimeAgainstPrice(problem, {}, slowest_seconds);
    REQUIRE(some.ok());
    REQUIRE(some->points.size() == 2);
    CHECK(some->points[1].chosen.plan == all->points[1].chosen.plan);
    CHECK(some->complete == all->complete);
    ++shorter;
  }
  CHECK(shorter > 3);
}

TEST_CASE("a list that is stopped on its way has what was found by then", "[property]") {
  int shorter = 0;
  // A machine that keeps the thread which stops them from running is asked more often.
  for (uint64_t seed = 0; seed < 60 || (shorter == 0 && seed < 1000); ++seed) {
    CAPTURE(seed);
    PlanningProblem problem =
        RandomProblem(seed, {.min_devices = 4, .max_devices = 6, .prices = RandomPrices::kWithLimits});
    problem.constraints.most_devices = 0;
    problem.constraints.most_price_per_hour = 0;
    const absl::StatusOr<ParetoList> whole = ListTimeAgainstPrice(problem);
    std::atomic<bool> runs = false, stop = false;
    std::thread stopper([&] {
      runs = true;
      for (uint64_t i = 0; i < 20 * (seed % 60); ++i) std::this_thread::yield();
      stop = true;
    });
    while (!runs) std::this_thread::yield();
    const absl::StatusOr<ParetoList> stopped = ListTimeAgainstPrice(problem, {.stop = &stop});
    stopper.join();
    if (!stopped.ok()) {
      CHECK((absl::IsCancelled(stopped.status()) || stopped.status() == whole.status()));
      shorter += absl::IsCancelled(stopped.status());
      continue;
    }
    REQUIRE(whole.ok());
    CHECK_FALSE(stopped->points.empty());
    if (stopped->complete) CHECK(stopped->points.size() == whole->points.size());
    shorter += whole->complete && !stopped->complete;
    for (const ParetoPoint& point : stopped->points) {
      CHECK(*PredictStepSeconds(problem, point.chosen.plan) == point.chosen.step_seconds);
      CHECK(point.chosen.step_seconds >= whole->points.front().chosen.step_seconds * (1 - 1e-9));
    }
  }
  CHECK(shorter > 0);
}

TEST_CASE("a list that was stopped before is cancelled") {
  const std::atomic<bool> stop = true;
  PlanningProblem problem = RandomProblem(5, AlikeDevices(4));
  for (DeviceCost& device : problem.devices) device.price_per_hour = 1;
  CHECK(absl::IsCancelled(ListTimeAgainstPrice(problem, {.stop = &stop}).status()));
}

}  // namespace
}  // namespace medley
