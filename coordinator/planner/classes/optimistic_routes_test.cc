#include "coordinator/planner/classes/optimistic_routes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/predictor/device_classes.h"
#include "runtime/ir/model/parameters.h"

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
    PlanKind kind(problem, DeviceClassesOf(problem), memories, /*layers_on_hosts=*/false, kMostStages,
                  {.routes = {1, 4}});
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

TEST_CASE("routes wait for what they share with hosts that are slow to sum") {
  // Eight layers, each of 3 seconds; two hosts of eight devices with eight cards, and one of eight with one.
  const PlanningProblem problem = ManyCardsAndOne(/*on_host=*/8, 48);
  const auto layer_elements =
      static_cast<double>(SegmentElements(problem.shape.model, SegmentOfBlock(BlockOfLayer(0))));
  const std::vector<DeviceClass> classes = DeviceClassesOf(problem);
  StageMemories memories(problem);
  PlanTraits traits{.routes = {16, 24}, .shards_optimizer = true};
  const PlanKind any(problem, classes, memories, /*layers_on_hosts=*/false, 4, traits);
  traits.slow_class = 1;
  traits.least_layers = 6;
  const PlanKind slow(problem, classes, memories, /*layers_on_hosts=*/false, 4, traits);
  const auto form = [](int layers, bool first, int from_end) {
    return StageForm{.kind = 0, .layers = layers, .first = first, .from_end = from_end};
  };
  // Of six layers others hold half of what the host needs, which comes and goes by one card: two seconds a layer, either way. Backwards hide
  // that; a device's first forward of 8 seconds does not, with what it gathers beside.
  const SumFloor floor(problem, 16);
  const auto beside_seconds = [&](const RouteShape& shape, int slow_layers) {
    const double elements =
        static_cast<double>(any.table().Parameters(shape.stages[0])) - slow_layers * layer_elements;
    return floor.Seconds(elements, 1, shape.stages[0].layers - slow_layers + 3) / 2;
  };
  const RouteShape alone{.stages = {form(8, true, 1)}};
  CHECK(slow.WayOf(alone, {}) == Approx(24 + 12 + beside_seconds(alone, 6) - 8).epsilon(1e-3));
  CHECK(any.WayOf(alone, {}) == Approx(24).epsilon(1e-3));
  // Of the first six of eight layers at least four are among any six.
  const RouteShape two{.stages = {form(6, true, 2), form(2, false, 1)}};
  CHECK(slow.WayOf(two, {}) - any.WayOf(two, {}) == Approx(8 + beside_seconds(two, 4) - 6).epsilon(1e-3));
  // The first two may be others.
  const RouteShape short_first{.stages = {form(2, true, 2), form(6, false, 1)}};
  CHECK(slow.WayOf(short_first, {}) == any.WayOf(short_first, {}));
  // No stage of the class has more layers than that.
  traits.least_layers = 0;
  traits.most_layers = 4;
  PlanKind limited(problem, classes, memories, /*layers_on_hosts=*/false, 4, traits);
  StageForm of_slow = form(5, true, 2);
  of_slow.kind = 1;
  CHECK_FALSE(limited.table().FitWithLeast(of_slow));
  of_slow.layers = 4;
  CHECK(limited.table().FitWithLeast(of_slow));
  StageForm of_others = form(5, true, 2);
  CHECK(limited.table().FitWithLeast(of_others));
}

}  // namespace
}  // namespace medley
