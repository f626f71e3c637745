#include "coordinator/planner/classes/route_shape.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/classes/place_routes.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/predict.h"

namespace medley {
namespace {

TEST_CASE("in the end a micro-batch takes the longest mean of what turns take, messages included") {
  std::mt19937_64 random(5);
  int tried = 0, waiting = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    PlanningProblem problem = ManyDevices(seed, 8);
    problem.constraints.saves_memory = true;
    problem.shape.model.layers = 12;
    for (DeviceCost& device : problem.devices) device.network_cards = 0;  // nothing is shared
    const int classes = static_cast<int>(DeviceClassesOf(problem).size());
    const LinkModel slow = LinkModel::Line(0.2 + 0.1 * static_cast<double>(seed % 20), 1e6);
    for (int a = 0; a < classes; ++a) {
      problem.links.SetWithinHosts(a, a, {slow, slow});
      for (int b = 0; b <= a; ++b) problem.links.SetBetweenHosts(a, b, {slow, slow});
    }
    StageMemories memories(problem);
    StageTable table(problem, DeviceClassesOf(problem), memories, 1, {.most_routes = 1, .only_degree = 1});
    RouteShape shape;
    const int stages = 2 + static_cast<int>(random() % 5);
    for (int s = 0; s < stages; ++s)
      shape.stages.push_back({.kind = static_cast<int>(random() % table.kinds().size())});
    const std::vector<int> devices = DevicesOf(table, shape);
    bool enough = true;
    for (int c = 0; c < classes; ++c) enough = enough && devices[c] <= table.classes()[c].devices;
    if (!enough || !DealLayers(table, shape) || !FitWithLeast(table, shape)) continue;
    const RouteClock clock(table, shape);
    constexpr int kMany = 240;  // divisible by any number of stages here
    std::vector<ShapedRoutes> routes = {{shape, 1, kMany}};
    Plan plan = PlaceRoutes(table, routes);
    if (plan.units.empty()) continue;
    const auto step_seconds = [&](int micro_batches) {
      plan.routes[0].micro_batches = micro_batches;
      problem.shape.global_batch_sequences = micro_batches * plan.routes[0].micro_batch_sequences;
      return PredictStepSeconds(problem, plan).value();
    };
    INFO("seed " << seed << ", " << Describe(plan));
    ++tried;
    const double period = (step_seconds(kMany) - step_seconds(kMany / 2)) / (kMany / 2);
    const double clocked =
        (clock.LastBackwardSeconds(0, kMany) - clock.LastBackwardSeconds(0, kMany / 2)) / (kMany / 2);
    CHECK(clocked == Approx(period).epsilon(2e-3));
    double longest = 0;
    for (const StageForm& stage : shape.stages) longest = std::max(longest, table.PassSeconds(stage));
    CHECK(clocked >= longest * (1 - 1e-9));
    waiting += clocked > 1.02 * longest ? 1 : 0;
  }
  CHECK(tried >= 20);
  CHECK(waiting >= 8);
}

}  // namespace
}  // namespace medley
