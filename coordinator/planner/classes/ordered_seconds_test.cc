#include "coordinator/planner/classes/ordered_seconds.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <optional>
#include <random>

#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/planner/classes/place_routes.h"
#include "coordinator/planner/techniques/order_problem.h"
#include "coordinator/planner/techniques/orders.h"
#include "coordinator/predictor/device_classes.h"
#include "coordinator/predictor/predict.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// A route, or a bundle, of random units on the devices of a random cluster, and the plan that is it alone.
struct Alone {
  explicit Alone(uint64_t seed) : problem(ManyDevices(seed, 12)), memories(problem) {
    std::mt19937_64 random(seed);
    const auto draw = [&](int below) { return static_cast<int>(random() % below); };
    problem.shape.model.layers = 20 + draw(12);
    for (DeviceCost& device : problem.devices) {
      device.room.memory = KiB(5000 + 1500 * draw(8));
      device.network_cards = 0;  // nothing is shared
      device.update_seconds_per_parameter = 0;
    }
    classes = DeviceClassesOf(problem);
    table.emplace(problem, classes, memories, 1, TableScope{.most_routes = 1, .only_degree = 1});
    const int stages = 2 + draw(4);
    for (int s = 0; s < stages; ++s)
      shape.stages.push_back(
          {.kind = draw(static_cast<int>(table->kinds().size())), .units = 1 + draw(4) / 3});
    const std::vector<int> devices = DevicesOf(*table, shape);
    for (size_t c = 0; c < devices.size(); ++c) {
      if (devices[c] > classes[c].devices) return;
    }
    if (!DealLayers(*table, shape) || !FitWithLeast(*table, shape)) return;
    micro_batches = 12;
    std::vector<ShapedRoutes> routes = {{shape, 1, micro_batches}};
    plan = PlaceRoutes(*table, routes);
    plan.shards_optimizer = shape.is_bundle() && problem.constraints.saves_memory;
    problem.shape.global_batch_sequences = SequencesOf(plan);
  }
  bool empty() const { return plan.units.empty(); }

  PlanningProblem problem;
  StageMemories memories;
  std::vector<DeviceClass> classes;
  std::optional<StageTable> table;
  RouteShape shape;
  int micro_batches = 0;
  Plan plan;
};

TEST_CASE("no order that is found takes less than is estimated at least, and most take little more") {
  int tried = 0, bundles = 0, tight = 0;
  double over = 0;
  for (uint64_t seed = 1; seed <= 240; ++seed) {
    Alone alone(seed);
    if (alone.empty()) continue;
    INFO("seed " << seed << ", " << Describe(alone.plan));
    const std::vector<double> nothing(alone.shape.stages.size(), 0);
    const double least =
        LeastOrderedSeconds(*alone.table, alone.shape, alone.micro_batches, nothing, nothing);
    const std::optional<PredictedPlan> found = WithSynthesisedOrder(alone.problem, alone.plan, kNever);
    if (!found) continue;
    ++tried;
    bundles += alone.shape.is_bundle() ? 1 : 0;
    // Buffers are whole, and what is kept is told by the layer.
    CHECK(found->step_seconds >= 0.95 * least);
    double busiest = 0;
    for (const StageForm& stage : alone.shape.stages) {
      const int turns = (alone.micro_batches + stage.units - 1) / stage.units;
      busiest = std::max(busiest, turns * alone.table->PassSeconds(stage));
    }
    CHECK(least >= busiest * (1 - 1e-9));
    tight += least > 1.03 * busiest ? 1 : 0;
    over += found->step_seconds / least;
  }
  CHECK(tried >= 60);
  CHECK(bundles >= 12);
  CHECK(tight >= 20);
  CHECK(over / tried <= 1.03);
}

TEST_CASE("what a stage keeps of a micro-batch, and has room for, is what orders are made for") {
  int stages = 0;
  for (uint64_t seed = 1; seed <= 240; ++seed) {
    Alone alone(seed);
    if (alone.empty()) continue;
    INFO("seed " << seed << ", " << Describe(alone.plan));
    const absl::StatusOr<OrderProblem> made = MakeOrderProblem(alone.problem, alone.plan);
    REQUIRE(made.ok());
    for (size_t s = 0; s < alone.shape.stages.size(); ++s) {
      const TimedStage& timed = made->pipeline.routes[0].stages[s];
      const StageForm& stage = alone.shape.stages[s];
      const StageKeeping keeping = alone.table->KeepingOf(stage);
      const double limit = made->memory_limit[timed.unit];
      // Beside what layers keep there are what arrives and leaves, and what the head keeps.
      CHECK(keeping.kept_bytes <= timed.kept * (1 + 1e-9));
      if (stage.layers > 0) CHECK(keeping.kept_bytes >= 0.7 * timed.kept);
      CHECK(keeping.limit_bytes == Approx(limit).epsilon(0.25).margin(timed.kept));
      if (timed.weight_gradient_seconds > 0)
        CHECK(keeping.deferred_bytes == Approx(timed.deferred).epsilon(0.3));
      CHECK(alone.table->WeightGradientSeconds(stage) == Approx(timed.weight_gradient_seconds).margin(1e-9));
      ++stages;
    }
  }
  CHECK(stages >= 200);
}

}  // namespace
}  // namespace medley
