#include "coordinator/planner/classes/optimistic_routes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/predictor/device_classes.h"

namespace medley {
namespace {

// As many as fill the time of every stage, less one after another while their ways do not end in time.
double CountedDown(const PlanKind& kind, const RouteShape& shape, double seconds, int& counts) {
  const double left = seconds - kind.WayOf(shape, {});
  if (left < 0) return 0;
  double most = std::numeric_limits<double>::infinity();
  for (const StageForm& stage : shape.stages) {
    const double pass = kind.table().PassSeconds(stage),
                 ahead = (stage.from_end - 1) * kind.table().ForwardSeconds(stage);
    most = std::min({most, 1 + (left + ahead) / pass, seconds / pass});
  }
  most = std::floor(most * kSameWorth);
  const int stages = static_cast<int>(shape.stages.size());
  while (most > 1 && kind.WayOf(shape, TripsOf(static_cast<int>(most), stages)) > seconds * kSameWorth) {
    --most;
    ++counts;
  }
  return most;
}

TEST_CASE("what a route does at most by some time is what counting down finds") {
  int counts = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    PlanningProblem problem = ManyDevices(seed, 12);
    for (DeviceCost& device : problem.devices) device.room.memory = GiB(1);
    // Ways take longer than what stages compute.
    for (LinkCost& cost : problem.links.each())
      cost.transfer = LinkModel::Line(20 * static_cast<double>(seed), 1e6);
    StageMemories memories(problem);
    constexpr int kMostStages = 4;
    PlanKind kind(problem, DeviceClassesOf(problem), memories, /*layers_on_hosts=*/false, kMostStages, {1, 4},
                  /*shards_optimizer=*/false);
    const int layers = problem.shape.model.layers;
    for (const ShapePricing& pricing : kind.pricings()) {
      for (int stages = 1; stages <= std::min(kMostStages, layers); ++stages) {
        for (int own = 1; own <= layers - stages + 1; ++own) {
          RouteShape shape{.size = pricing.size()};
          for (int s = 0; s < stages; ++s) {
            const int rest = s + 1 == stages ? layers - own - (stages - 2) : 1;
            shape.stages.push_back(pricing.Form(0, stages - s,
                                                stages == 1 ? layers
                                                : s == 0    ? own
                                                            : rest,
                                                s == 0));
          }
          const double way = kind.WayOf(shape, {});
          for (const double ways : {0.5, 1.0, 1.7, 2.0, 3.3, 9.9, 40.0}) {
            const double most = CountedDown(kind, shape, ways * way, counts);
            CHECK(kind.MostMicroBatches(shape, ways * way) == most);
          }
        }
      }
    }
  }
  CHECK(counts > 100);
}

}  // namespace
}  // namespace medley
