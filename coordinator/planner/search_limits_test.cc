#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/random_problem.h"

namespace medley {
namespace {

// Devices of which each computes fast with micro-batches of one size alone, which is another one's for each, in routes
// of one stage.
PlanningProblem OwnSizes(int devices, std::vector<int> sizes, int global_batch_sequences) {
  PlanningProblem problem = RandomProblem(5, AlikeDevices(devices));
  problem.links = DeviceLinks(devices);
  problem.constraints.schedules = {Schedule::kGPipe};
  problem.constraints.max_stages = 1;
  problem.shape.global_batch_sequences = global_batch_sequences;
  problem.micro_batch_sizes = std::move(sizes);
  for (int d = 0; d < devices; ++d) {
    DeviceCost& device = problem.devices[d];
    device.kind = absl::StrCat("kind ", d);
    device.room = {.memory = GiB(1)};
    device.times.clear();
    for (size_t size = 0; size < problem.micro_batch_sizes.size(); ++size) {
      const double seconds = problem.micro_batch_sizes[size] * (static_cast<int>(size) == d ? 1.0 : 2.0);
      device.times.push_back({{}, {seconds, 2 * seconds, seconds}, {}});
    }
  }
  return problem;
}

TEST_CASE(
    "more combinations of micro-batch sizes than can be looked at end at the limit, and the bound holds") {
  const PlanningProblem problem = OwnSizes(8, {1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16}, 720);
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem, {.max_simulated_instructions = 300'000});
  REQUIRE(chosen.ok());
  // Each at its own size: nearly 90 sequences for each.
  Plan own{.schedule = Schedule::kGPipe};
  const std::vector<int> micro_batches = {90, 45, 30, 23, 18, 15, 11, 10};
  for (int d = 0; d < 8; ++d) {
    own.units.push_back({.devices = {problem.devices[d].name},
                         .chunks = {{0, problem.shape.model.blocks()}},
                         .activations = problem.devices[d].activations});
    Route& route = own.routes.emplace_back();
    route.units = {d};
    route.micro_batches = micro_batches[d];
    route.micro_batch_sequences = problem.micro_batch_sizes[d];
  }
  const absl::StatusOr<double> own_seconds = PredictStepSeconds(problem, own);
  REQUIRE(own_seconds.status().ToString() == "OK");
  CHECK(chosen->lower_bound_seconds > 0);
  CHECK(chosen->lower_bound_seconds <= *own_seconds * (1 + 1e-9));
  if (chosen->proven_optimal) CHECK(chosen->step_seconds <= *own_seconds * (1 + 1e-9));
}

TEST_CASE("planning that is stopped while sizes are given proves nothing and has a bound that holds",
          "[property]") {
  const PlanningProblem problem = OwnSizes(4, {1, 2, 3, 4}, 48);
  const absl::StatusOr<ChosenPlan> best = ChoosePlan(problem);
  REQUIRE(best.ok());
  for (int attempt = 0; attempt < 100; ++attempt) {
    CAPTURE(attempt);
    std::atomic<bool> stop = false;
    std::thread stopper([&] {
      for (int i = 0; i < attempt * attempt; ++i) std::this_thread::yield();
      stop = true;
    });
    const absl::StatusOr<ChosenPlan> stopped = ChoosePlan(problem, {.stop = &stop});
    stopper.join();
    if (!stopped.ok()) {
      CHECK(absl::IsCancelled(stopped.status()));
      continue;
    }
    CHECK(stopped->lower_bound_seconds <= best->step_seconds * (1 + 1e-9));
    if (stopped->proven_optimal) CHECK(stopped->step_seconds <= best->step_seconds * (1 + 1e-9));
  }
}

// Devices of which the fastest, the first half, have too little memory to hold the model two together, and the others
// hold it two together, but not alone; with routes of two stages at most.
PlanningProblem SmallAreFastest(int devices, bool are_alike) {
  PlanningProblem problem = RandomProblem(5, AlikeDevices(devices));
  problem.links = DeviceLinks(devices);
  problem.constraints.schedules = {Schedule::kGPipe};
  problem.constraints.max_stages = 2;
  problem.shape.model.layers = 8;
  problem.shape.model.vocabulary = 8;
  problem.shape.global_batch_sequences = 4;
  problem.micro_batch_sizes = {1};
  for (int d = 0; d < devices; ++d) {
    DeviceCost& device = problem.devices[d];
    const bool is_small = d < devices / 2;
    const double seconds = (is_small ? 1 : 3) + (are_alike ? 0 : 0.1 * d);
    device.kind = are_alike ? absl::StrCat("small ", is_small) : absl::StrCat("kind ", d);
    device.times = {{{}, {seconds, 2 * seconds, seconds}, {}}};
  }
  PlanningProblem alone = OnDevices(problem, {0});
  DeviceRoom& room = alone.devices[0].room;
  room = {.memory = GiB(1)};
  while (FitsWithoutSharing(alone)) room.memory = {room.memory.value * 9 / 10};
  for (int d = 0; d < devices; ++d)
    problem.devices[d].room = {.memory = {d < devices / 2 ? room.memory.value / 5 : room.memory.value}};
  return problem;
}

TEST_CASE("lists that cannot fit use up no limit") {
  PlanningProblem problem = SmallAreFastest(8, /*are_alike=*/false);
  SECTION("too few devices for a route") {}
  SECTION("a device that holds no block") {
    for (int d = 0; d < 4; ++d) problem.devices[d].room.memory = {1};
  }
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem, {.max_device_lists = 2000});
  CHECK(chosen.status().ToString() == "OK");
}

TEST_CASE("a search that ends at a limit with nothing does not say that nothing fits") {
  const SearchLimits limits{.max_device_lists = 1};
  PlanningProblem problem = SmallAreFastest(8, /*are_alike=*/true);
  // Planning by classes knows none that share a processor.
  const int own = std::exchange(problem.devices[7].processor, problem.devices[6].processor);
  REQUIRE(ChoosePlan(problem).ok());
  const absl::Status ended = ChoosePlan(problem, limits).status();
  CHECK(absl::IsDeadlineExceeded(ended));
  CHECK_THAT(std::string(ended.message()), Catch::Contains("whether one does is not known"));
  // Where planning by classes may, it finds one.
  problem.devices[7].processor = own;
  const absl::StatusOr<ChosenPlan> by_classes = ChoosePlan(problem, limits);
  REQUIRE(by_classes.status().ToString() == "OK");
  CHECK(FitsMemory(problem, by_classes->plan));
  CHECK_FALSE(by_classes->proven_optimal);
  CHECK(by_classes->lower_bound_seconds <= ChoosePlan(problem)->step_seconds * (1 + 1e-9));
  for (DeviceCost& device : problem.devices) device.room.memory = {1};
  CHECK(absl::IsResourceExhausted(ChoosePlan(problem).status()));
}

TEST_CASE("the devices of one host are a first plan, though faster ones are on different hosts") {
  PlanningProblem problem = RandomProblem(5, AlikeDevices(8));
  problem.links = DeviceLinks(8);
  problem.shape.global_batch_sequences = 16;
  problem.micro_batch_sizes = {1};
  const LinkModel fast = LinkModel::Line(1e-4, 1e9), slow = LinkModel::Line(100, 1);
  for (int d = 0; d < 8; ++d) {
    DeviceCost& device = problem.devices[d];
    const double seconds = 1 + 0.01 * d + (d % 2 == 0 ? 0 : 0.5);
    device.kind = absl::StrCat("kind ", d);
    device.host = d / 2;
    device.room = {.memory = GiB(1)};
    device.times = {{{}, {seconds, 2 * seconds}, {}}};
    for (int other = 0; other < d; ++other) {
      const LinkModel& link = other / 2 == d / 2 ? fast : slow;
      problem.links.Set(d, other, {link, link});
    }
  }
  const absl::StatusOr<ChosenPlan> on_host = ChoosePlan(OnDevices(problem, {0, 1})),
                                   alone = ChoosePlan(OnDevices(problem, {0}));
  REQUIRE(on_host.ok());
  REQUIRE(alone.ok());
  REQUIRE(on_host->step_seconds < 0.8 * alone->step_seconds);
  const absl::StatusOr<ChosenPlan> chosen = ChoosePlan(problem, {.max_device_lists = 1});
  REQUIRE(chosen.status().ToString() == "OK");
  CHECK(chosen->step_seconds < 0.9 * alone->step_seconds);
  CHECK(chosen->lower_bound_seconds <= on_host->step_seconds * (1 + 1e-9));
}

}  // namespace
}  // namespace medley
