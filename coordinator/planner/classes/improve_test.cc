#include "coordinator/planner/classes/improve.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>

#include "coordinator/planner/classes/judge_plans.h"
#include "coordinator/planner/classes/many_devices.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/device_classes.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

LocalSearch SearchOn(StageTable& table, const SumModel& sums, const Resources& resources, PlanJudge& judge,
                     int most_routes, const std::atomic<bool>* stop) {
  return LocalSearch({.table_of = [&](int) -> StageTable& { return table; },
                      .sums_of = [&](int, int) -> const SumModel& { return sums; },
                      .predict = [&](const StageTable& of,
                                     ClassedPlan plan) { return judge.StepSeconds(of, plan, nullptr); },
                      .resources = &resources,
                      .most_routes = most_routes,
                      .most_stages = 4},
                     stop);
}

// One route over four devices, with all layers but the fewest on its first stage.
struct Uneven {
  explicit Uneven(uint64_t seed)
      : problem(ManyDevices(seed, 12)),
        predictor(problem),
        memories(problem),
        table(problem, predictor.classes(), memories, 1),
        sums(predictor, predictor.classes(), 2, 1),
        resources(problem, predictor.classes()) {
    const int layers = problem.shape.model.layers;
    ShapedRoutes& routes =
        plan.routes.emplace_back(ShapedRoutes{{0, {}}, 1, problem.shape.global_batch_sequences});
    routes.micro_batches /= problem.micro_batch_sizes[0];
    for (int s = 0; s < 3; ++s) {
      routes.shape.stages.push_back({.kind = 0,
                                     .layers = s == 0   ? layers - 1
                                               : s == 1 ? 1
                                                        : 0,
                                     .first = s == 0,
                                     .from_end = 3 - s});
    }
    fits = FitWithLeast(table, routes.shape) && predictor.classes()[0].devices >= 3;
    if (fits) start_seconds = judge.StepSeconds(table, plan, nullptr);
  }

  int Improve(int most_predictions, const std::atomic<bool>* stop = nullptr) {
    LocalSearch search = SearchOn(table, sums, resources, judge, 12, stop);
    return search.ImproveFrom(plan, start_seconds, most_predictions);
  }

  const PlanningProblem problem;
  AlikeRoutePredictor predictor;
  StageMemories memories;
  StageTable table;
  const SumModel sums;
  const Resources resources;
  PlanByClass best;
  PlanJudge judge{predictor, best};
  ClassedPlan plan;
  bool fits = false;
  double start_seconds = kNever;
};

TEST_CASE("plans near an uneven one are found that are faster, the same each time") {
  int improved = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Uneven uneven(seed);
    if (!uneven.fits || uneven.start_seconds == kNever) continue;
    INFO("seed " << seed);
    const int predictions = uneven.Improve(200);
    CHECK(predictions <= 200);
    CHECK(uneven.best.step_seconds <= uneven.start_seconds);
    if (uneven.best.step_seconds < 0.8 * uneven.start_seconds) ++improved;
    Uneven again(seed);
    CHECK(again.Improve(200) == predictions);
    CHECK(again.best.plan == uneven.best.plan);
  }
  CHECK(improved >= 5);
}

// One route over all devices of one class, a stage each: only stages that join have several devices.
TEST_CASE("stages of a class join where that is faster, and part again") {
  int joined = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const PlanningProblem all = ManyDevices(seed, 12);
    const std::vector<DeviceClass> classes = DeviceClassesOf(all);
    const std::vector<int>& host = classes[0].hosts[0];
    PlanningProblem problem = OnDevices(all, host);
    problem.shape.global_batch_sequences =
        problem.micro_batch_sizes[0];  // one micro-batch: a pipeline gains nothing
    AlikeRoutePredictor predictor(problem);
    StageMemories memories(problem);
    StageTable table(problem, predictor.classes(), memories, 1);
    const SumModel sums(predictor, predictor.classes(), 1, 1);
    const Resources resources(problem, predictor.classes());
    PlanByClass best;
    PlanJudge judge{predictor, best};
    RouteShape shape;
    shape.stages.resize(host.size());
    if (predictor.classes().size() != 1 || !DealLayers(table, shape) || !FitWithLeast(table, shape)) continue;
    ClassedPlan plan{.routes = {{shape, 1, 1}}};
    const double start_seconds = judge.StepSeconds(table, plan, nullptr);
    LocalSearch search = SearchOn(table, sums, resources, judge, 1, nullptr);
    search.ImproveFrom(plan, start_seconds, 50);
    const auto is_wide = [](const Unit& unit) { return unit.devices.size() > 1; };
    if (std::any_of(best.plan.units.begin(), best.plan.units.end(), is_wide)) ++joined;
  }
  CHECK(joined >= 5);
}

TEST_CASE("no more plans are predicted than may be, and none once it is stopped") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Uneven uneven(seed);
    if (!uneven.fits || uneven.start_seconds == kNever) continue;
    CHECK(uneven.Improve(3) <= 3);
    const std::atomic<bool> stop = true;
    CHECK(Uneven(seed).Improve(200, &stop) == 0);
  }
}

}  // namespace
}  // namespace medley
