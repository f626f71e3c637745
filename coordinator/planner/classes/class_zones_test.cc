#include "coordinator/planner/classes/class_zones.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/device_classes.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMostStages = 8;

struct Cluster {
  Cluster(uint64_t seed, int devices)
      : problem(ManyDevices(seed, devices)),
        memories(problem),
        table(problem, DeviceClassesOf(problem), memories, /*optimizer_share=*/1) {}
  const PlanningProblem problem;
  StageMemories memories;
  StageTable table;
};

// Of the class's devices, as many stages as there are devices for on each of so many routes.
std::vector<StageForm> StagesOf(const Cluster& cluster, int kind, int routes) {
  const StageKind& of = cluster.table.kinds()[kind];
  const int devices = cluster.table.classes()[of.device_class].devices / routes;
  return std::vector<StageForm>(devices / of.degree, {.kind = kind});
}

// The least estimate of all orders of classes, degrees of each, and micro-batch sizes; infinite: nothing fits.
double LeastSeconds(Cluster& cluster, int routes) {
  StageTable& table = cluster.table;
  const int classes = static_cast<int>(table.classes().size()),
            kinds = static_cast<int>(table.kinds().size());
  double least = kNever;
  std::vector<int> order(classes);
  std::iota(order.begin(), order.end(), 0);
  do {
    std::vector<int> kind_of(classes, -1);  // -1: left out
    const auto try_all = [&](const auto& self, int c) -> void {
      if (c < classes) {
        self(self, c + 1);
        for (int kind = 0; kind < kinds; ++kind) {
          if (table.kinds()[kind].device_class != order[c]) continue;
          kind_of[c] = kind;
          self(self, c + 1);
        }
        kind_of[c] = -1;
        return;
      }
      for (int size = 0; size < static_cast<int>(cluster.problem.micro_batch_sizes.size()); ++size) {
        RouteShape shape{.size = size};
        for (const int kind : kind_of) {
          if (kind < 0) continue;
          const std::vector<StageForm> stages = StagesOf(cluster, kind, routes);
          shape.stages.insert(shape.stages.end(), stages.begin(), stages.end());
        }
        if (shape.stages.empty() || shape.stages.size() > kMostStages || !DealLayers(table, shape) ||
            !FitWithLeast(table, shape))
          continue;
        const int at_once = routes * cluster.problem.micro_batch_sizes[size];
        const std::vector<double> no_sums(shape.stages.size(), 0);
        least = std::min(
            least,
            RouteClock(table, shape)
                .Seconds((cluster.problem.shape.global_batch_sequences + at_once - 1) / at_once, no_sums));
      }
    };
    try_all(try_all, 0);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST_CASE("zones are about as fast as the fastest of all orders and degrees, and never faster") {
  int found = 0, fastest = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Cluster cluster(seed, 12 + static_cast<int>(seed % 3) * 4);
    const int routes = 1 + static_cast<int>(seed % 4);
    INFO("seed " << seed << ", " << routes << " routes");
    const double least = LeastSeconds(cluster, routes);
    const std::vector<ClassedPlan> plans = PlansOfZones(cluster.table, routes, kMostStages, 3, nullptr);
    if (plans.empty()) continue;
    REQUIRE(least < kNever);
    ++found;
    CHECK(plans[0].estimated_seconds >= least * (1 - 1e-9));
    CHECK(plans[0].estimated_seconds <= 1.25 * least);
    if (plans[0].estimated_seconds <= 1.001 * least) ++fastest;
  }
  INFO(fastest << " of " << found);
  CHECK(found >= 30);
  CHECK(fastest * 10 >= found * 8);
}

TEST_CASE("routes are alike, each class has layers of its own, and the whole batch is done") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Cluster cluster(seed, 18);
    const int routes = 1 + static_cast<int>(seed % 5);
    INFO("seed " << seed << ", " << routes << " routes");
    const std::vector<ClassedPlan> plans = PlansOfZones(cluster.table, routes, kMostStages, 4, nullptr);
    CHECK(plans.size() <= 4);
    for (const ClassedPlan& plan : plans) {
      CHECK(plan.replicas() <= routes);
      const RouteShape& shape = plan.routes[0].shape;
      int sequences = 0, layers = 0;
      for (const ShapedRoutes& of : plan.routes) {
        CHECK(SameShape(of.shape, shape));
        sequences += of.routes * of.micro_batches * cluster.problem.micro_batch_sizes[shape.size];
      }
      CHECK(sequences == cluster.problem.shape.global_batch_sequences);
      std::set<int> before;
      std::optional<int> last;
      for (const StageForm& stage : shape.stages) {
        layers += stage.layers;
        const int device_class = cluster.table.kinds()[stage.kind].device_class;
        if (last != device_class) CHECK(before.insert(device_class).second);
        last = device_class;
      }
      CHECK(layers == cluster.problem.shape.model.layers);
      const std::vector<int> taken = DevicesOf(cluster.table, shape);
      for (size_t c = 0; c < taken.size(); ++c)
        CHECK(taken[c] * routes <= cluster.table.classes()[c].devices);
    }
    CHECK(std::is_sorted(plans.begin(), plans.end(), [](const ClassedPlan& a, const ClassedPlan& b) {
      return a.estimated_seconds < b.estimated_seconds;
    }));
  }
}

TEST_CASE(
    "bundles have units side by side, meet in no other, and with zones do the whole batch on what there is") {
  int bundled = 0, in_zones = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Cluster cluster(seed, 18);
    AlikeRoutePredictor predictor(cluster.problem);
    SumsOfClasses sums(predictor, cluster.table.classes());
    const int bundles = 1 + static_cast<int>(seed % 4);
    INFO("seed " << seed << ", " << bundles << " bundles");
    for (const ClassedPlan& plan :
         PlansOfOrderedZones(cluster.table, sums, bundles, kMostStages, 4, nullptr)) {
      const RouteShape& shape = plan.routes[0].shape;
      ++(shape.is_bundle() ? bundled : in_zones);
      int sequences = 0, layers = 0, apart = 0, units_behind = 0;
      for (const ShapedRoutes& of : plan.routes) {
        CHECK(SameShape(of.shape, shape));
        CHECK(of.micro_batches >= shape.routes());
        sequences += of.routes * of.micro_batches * cluster.problem.micro_batch_sizes[shape.size];
      }
      CHECK(sequences == cluster.problem.shape.global_batch_sequences);
      for (auto stage = shape.stages.rbegin(); stage != shape.stages.rend(); ++stage) {
        layers += stage->layers;
        apart = std::gcd(apart, stage->units);
        // Enough are under way to keep all units at work.
        units_behind += stage->units;
        CHECK(stage->from_end * stage->units >= units_behind);
        CHECK((stage->from_end - 1) * stage->units < units_behind);
      }
      CHECK(layers == cluster.problem.shape.model.layers);
      CHECK(apart == 1);
      const std::vector<int> taken = DevicesOf(cluster.table, plan.routes);
      for (size_t c = 0; c < taken.size(); ++c) CHECK(taken[c] <= cluster.table.classes()[c].devices);
    }
  }
  CHECK(bundled >= 40);
  CHECK(in_zones >= 20);
}

TEST_CASE("a bundle takes what its busiest units compute, with what comes before and behind it") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Cluster cluster(seed, 18);
    INFO("seed " << seed);
    RouteShape shape{.stages = {{.layers = 1, .units = 1}, {.layers = 2, .units = 3}}};
    shape.stages[1].layers = cluster.problem.shape.model.layers - 1;
    NumberStages(shape);
    CHECK(shape.routes() == 3);
    CHECK((shape.stages[0].from_end == 4 && shape.stages[1].from_end == 1));
    const RouteClock clock(cluster.table, shape);
    const std::vector<double> no_sums = {0, 0};
    for (const int turns : {1, 2, 5}) {
      const double first = 3 * turns * cluster.table.PassSeconds(clock.shape().stages[0]),
                   last = turns * cluster.table.PassSeconds(clock.shape().stages[1]);
      CHECK(clock.Seconds(3 * turns, no_sums) >= std::max(first, last) * (1 - 1e-9));
      // Both at work all the time, but for the first micro-batch of each unit on its way there and back.
      const double alone = clock.Seconds(1, no_sums);
      CHECK(clock.Seconds(3 * turns, no_sums) <= std::max(first, last) + 3 * alone);
    }
    // One unit more on a stage makes none slower.
    RouteShape wider = shape;
    ++wider.stages[1].units;
    NumberStages(wider);
    CHECK(RouteClock(cluster.table, wider).Seconds(12, no_sums) <= clock.Seconds(12, no_sums) * (1 + 1e-9));
  }
}

TEST_CASE("numbers of routes are those with which most of what the devices do is used") {
  const auto class_of = [](int devices) {
    return DeviceClass{.hosts = {}, .devices = devices, .most_on_host = 1};
  };
  // All devices take part in 6, 3, 2 and 1 routes; in 12 and 4 all of the fast class.
  CHECK(CountsForZones({class_of(12), class_of(18)}, {100, 1}, 12) ==
        std::vector<int>{12, 11, 6, 4, 3, 2, 1});
  CHECK(CountsForZones({class_of(1)}, {5}, 8) == std::vector<int>{1});
}

TEST_CASE("no zones are looked for once planning is stopped") {
  Cluster cluster(1, 18);
  REQUIRE_FALSE(PlansOfZones(cluster.table, 2, kMostStages, 1, nullptr).empty());
  const std::atomic<bool> stop = true;
  CHECK(PlansOfZones(cluster.table, 2, kMostStages, 1, &stop).empty());
}

}  // namespace
}  // namespace medley
