#include "coordinator/planner/classes/routes_within.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/predictor/device_classes.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double PeriodOf(const ShapePricing& pricing, const RouteShape& shape) {
  double period = 0;
  for (const StageForm& stage : shape.stages) {
    period = std::max(period, pricing.PassSeconds(stage.kind, stage.from_end, stage.layers, stage.first));
  }
  return period;
}

// The least period of all routes, tried one by one from their ends.
double LeastPeriod(const ShapePricing& pricing, std::vector<int>& devices, int layers, int stages,
                   double period) {
  double least = kNever;
  const std::vector<StageKind>& kinds = pricing.table().kinds();
  for (int kind = 0; kind < static_cast<int>(kinds.size()); ++kind) {
    int& left = devices[kinds[kind].device_class];
    if (left == 0) continue;
    --left;
    least = std::min(least, std::max(period, pricing.PassSeconds(kind, stages + 1, layers, /*first=*/true)));
    for (int own = stages == 0 ? 0 : 1; own <= layers && stages + 1 < pricing.most_stages(); ++own) {
      const double pass = pricing.PassSeconds(kind, stages + 1, own, /*first=*/false);
      if (pass == kNever) break;
      least =
          std::min(least, LeastPeriod(pricing, devices, layers - own, stages + 1, std::max(period, pass)));
    }
    ++left;
  }
  return least;
}

TEST_CASE("routes within counts of devices have the least period of all") {
  int some = 0, none = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 5);
    problem.shape.model.layers = std::max(3, problem.shape.model.layers);
    // What keeps routes from being whole, or has stages hold less the further from the end they are.
    for (DeviceCost& device : problem.devices) {
      if (seed % 2 == 0)
        device.room.memory = KiB(1200 + 400 * (seed % 10) + (device.kind == "kind 0" ? 800 : 0));
    }
    INFO("seed " << seed);
    const std::vector<DeviceClass> classes = DeviceClassesOf(problem);
    StageMemories memories(problem);
    StageTable table(problem, classes, memories, /*optimizer_share=*/1, {.only_degree = 1});
    std::vector<int> devices;
    for (const DeviceClass& of : classes) devices.push_back(of.devices);
    for (const ShapePricing& pricing : PricingsOf(table, /*most_stages=*/5)) {
      std::vector<int> left = devices;
      const double least = LeastPeriod(pricing, left, problem.shape.model.layers, 0, 0);
      const std::vector<RouteShape> shapes = RoutesWithin(pricing, devices);
      CHECK(shapes.empty() == (least == kNever));
      (shapes.empty() ? none : some) += 1;
      for (size_t i = 0; i < shapes.size(); ++i) {
        int layers = 0;
        for (const StageForm& stage : shapes[i].stages) layers += stage.layers;
        CHECK(layers == problem.shape.model.layers);
        const std::vector<int> taken = DevicesOf(table, shapes[i]);
        for (size_t c = 0; c < taken.size(); ++c) CHECK(taken[c] <= devices[c]);
        if (i == 0) CHECK(PeriodOf(pricing, shapes[i]) == least);
      }
    }
  }
  CHECK(some >= 60);
  CHECK(none >= 5);
}

TEST_CASE("routes within too many counts or devices, or of several degrees, are not searched") {
  PlanningProblem problem = ManyDevices(5, 24);
  problem.shape.model.layers = 12;
  const std::vector<DeviceClass> classes = DeviceClassesOf(problem);
  StageMemories memories(problem);
  StageTable mixed(problem, classes, memories, /*optimizer_share=*/1);
  REQUIRE(mixed.kinds().back().degree > 1);
  const std::vector<int> some(classes.size(), 4), many(classes.size(), 1'000'000);
  CHECK(RoutesWithin(PricingsOf(mixed, 4).front(), some).empty());
  StageTable single(problem, classes, memories, /*optimizer_share=*/1, {.only_degree = 1});
  CHECK(!RoutesWithin(PricingsOf(single, 4).front(), some).empty());
  // With several for each block; and with as many counts as there may not be.
  CHECK(RoutesWithin(PricingsOf(single, 16).front(), std::vector<int>(classes.size(), 16)).empty());
  CHECK(RoutesWithin(PricingsOf(single, 1'000).front(), many).empty());
}

}  // namespace
}  // namespace medley
