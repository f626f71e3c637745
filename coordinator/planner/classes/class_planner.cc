#include "coordinator/planner/classes/class_planner.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/planner/classes/class_search.h"
#include "coordinator/planner/classes/place_routes.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/predict.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

constexpr int kMostStages = 48;
// What is estimated to be so much slower than the fastest plan is not predicted.
constexpr double kHopeless = 1.01;
constexpr double kMuchSlower = 1.1;
// Of the optimizer's state of a stage, what it is taken to carry itself where it is shared.
constexpr double kSharedOptimizer = 1.0 / 8;
// Shares of slices are whole elements, and holders of parts of them not equally many.
constexpr double kOwnPart = 1.1;

// Whether the first rank of each stage of such routes fits its device, with `optimizer_share` of the state.
bool Fits(const AlikeRoutePredictor& predictor, const Plan& plan, double optimizer_share) {
  const PlanningProblem& problem = predictor.problem();
  std::set<std::string> seen;
  for (const Route& route : plan.routes) {
    Plan alone{.schedule = plan.schedule};
    Route& own = alone.routes.emplace_back(Route{{}, route.micro_batches, route.micro_batch_sequences});
    std::string key = absl::StrCat(route.micro_batch_sequences);
    for (const UnitId u : route.units) {
      const Unit& unit = plan.units[u];
      own.units.push_back(static_cast<int>(alone.units.size()));
      alone.units.push_back(unit);
      absl::StrAppend(&key, "|", predictor.ClassOf(predictor.DeviceNamed(unit.devices.front())), ",",
                      unit.devices.size(), ",", unit.chunks[0].end.value(), ",",
                      static_cast<int>(unit.recompute));
    }
    if (!seen.insert(key).second) continue;
    // More keep no more.
    own.micro_batches = std::min(own.micro_batches, 2 * static_cast<int>(own.units.size()) + 2);
    for (size_t s = 0; s < alone.units.size(); ++s) {
      const Rank rank = FirstRankOf(alone, static_cast<int>(s));
      RankMemory memory = MemoryOfRank(alone, rank, problem.shape);
      memory.optimizer = {
          static_cast<int64_t>(optimizer_share * static_cast<double>(memory.optimizer.value))};
      if (!medley::Fits(memory, RoomOf(problem, alone, rank))) return false;
    }
  }
  return true;
}

// "12 x [A100 x2: 10 layers | V100: 6 layers] x 30 of 2"
std::string DescribeShapes(const StageTable& table, const ClassedPlan& plan) {
  std::string text;
  for (const ShapedRoutes& shaped : plan.routes) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", shaped.routes, " x [");
    for (const StageForm& stage : shaped.shape.stages) {
      const StageKind& kind = table.kinds()[stage.kind];
      absl::StrAppend(&text, stage.first ? "" : " | ", table.problem().devices[kind.devices[0]].kind,
                      kind.degree > 1 ? absl::StrCat(" x", kind.degree) : "", ": ", stage.layers,
                      stage.recompute == Recompute::kNone ? "" : " again");
    }
    absl::StrAppend(&text, "] x ", shaped.micro_batches, " of ",
                    table.problem().micro_batch_sizes[shaped.shape.size]);
  }
  return text;
}

int Replicas(const ClassedPlan& plan) {
  int routes = 0;
  for (const ShapedRoutes& shaped : plan.routes) routes += shaped.routes;
  return routes;
}

int LeastDegree(const StageTable& table, const ClassedPlan& plan) {
  int least = 1 << 20;
  for (const ShapedRoutes& shaped : plan.routes) {
    for (const StageForm& stage : shaped.shape.stages)
      least = std::min(least, table.kinds()[stage.kind].degree);
  }
  return least;
}

class Planning {
 public:
  explicit Planning(const PlanningProblem& problem)
      : problem_(problem), predictor_(problem), classes_(predictor_.classes()) {}

  absl::StatusOr<PlanByClass> Run() {
    TryAll(classes_);
    // Sums were taken for those over all classes; over fewer, and not across slow links, they may be faster.
    const std::vector<DeviceClass> used = ClassesUsed();
    if (!used.empty() && used.size() < classes_.size()) TryAll(used);
    if (best_.plan.units.empty()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "no plan of ", problem_.devices.size(), " devices in ", classes_.size(),
          " classes fits their memory, whichever of the measured degrees of tensor parallelism stages "
          "have and whatever they recompute"));
    }
    best_.lower_bound_seconds = bound_;
    return std::move(best_);
  }

 private:
  void TryAll(const std::vector<DeviceClass>& classes) {
    shapes_.clear();  // they name kinds of other classes
    Try(classes, 1);
    if (problem_.constraints.saves_memory) Try(classes, kSharedOptimizer);
  }

  std::vector<DeviceClass> ClassesUsed() const {
    std::set<int> numbers;
    for (const Unit& unit : best_.plan.units) {
      for (const std::string& name : unit.devices)
        numbers.insert(predictor_.ClassOf(predictor_.DeviceNamed(name)));
    }
    std::vector<DeviceClass> used;
    for (const int number : numbers) used.push_back(classes_[number]);
    return used;
  }

  void Try(const std::vector<DeviceClass>& classes, double optimizer_share) {
    StageTable table(problem_, classes, optimizer_share);
    const int layers = problem_.shape.model.layers, allowed = problem_.constraints.max_stages;
    const int most_stages = std::min({layers, kMostStages, allowed > 0 ? allowed : layers});
    // How many replicas there are decides what their sums take, so each number is planned for by itself: plans of at
    // most so many, whose sums take what those of so many do.
    const int devices = static_cast<int>(problem_.devices.size()),
              most_routes = problem_.constraints.max_routes;
    int slower = 0;
    double least_so_far = std::numeric_limits<double>::infinity();
    for (int replicas = std::max(2, devices / kMostStages); replicas < 2 * devices; replicas *= 2) {
      const int limit = std::min(replicas, most_routes > 0 ? most_routes : devices);
      const SumModel sums(problem_, classes, limit, least_degree_);
      ClassSearch search(table, sums, most_stages, limit);
      for (const RouteShape& shape : shapes_) search.Suggest(shape);
      const std::vector<ClassedPlan> found = search.Run();
      best_.priced_shapes += search.priced();
      if (found.empty()) continue;
      shapes_ = search.Shapes();
      // With fewer classes it would not be one of all plans.
      if (classes.size() == classes_.size()) {
        const double bound = search.LowerBoundSeconds();
        bound_ = bound_ == 0 ? bound : std::min(bound_, bound);
      }
      double least = std::numeric_limits<double>::infinity();
      for (const ClassedPlan& plan : found) {
        least = std::min(least, plan.estimated_seconds);
        Keep(table, search, plan, optimizer_share < 1);
      }
      // More replicas sum longer.
      slower = least > kMuchSlower * least_so_far ? slower + 1 : 0;
      if (slower == 2) break;
      least_so_far = std::min(least_so_far, least);
      if (limit < replicas) break;
    }
  }

  // If it is predicted to be faster than the fastest.
  void Keep(const StageTable& table, ClassSearch& search, ClassedPlan found, bool shards_optimizer) {
    if (!best_.plan.units.empty() && found.estimated_seconds > kHopeless * best_.step_seconds) return;
    // Routes that have no place leave their work to the others.
    Plan plan;
    for (int tries = 0; plan.units.empty(); ++tries) {
      if (tries == 3 || found.empty()) return;
      plan = PlaceRoutes(table, found.routes, shards_optimizer && Replicas(found) > 1);
      if (plan.units.empty()) found = search.Distribute(found.routes);
    }
    if (!Fits(predictor_, plan, plan.shards_optimizer ? kOwnPart / Replicas(found) : 1)) return;
    ++best_.predicted_plans;
    const absl::StatusOr<AlikePrediction> predicted = predictor_.Predict(plan);
    if (!predicted.ok()) return;
    if (!best_.plan.units.empty() && predicted->step_seconds >= best_.step_seconds) return;
    best_.plan = std::move(plan);
    least_degree_ = LeastDegree(table, found);
    best_.step_seconds = predicted->step_seconds;
    best_.summary = absl::StrFormat("%d routes of %d kinds over %d classes of devices", Replicas(found),
                                    predicted->kinds_of_routes, classes_.size());
    absl::StrAppend(&best_.summary, ": ", DescribeShapes(table, found));
  }

  const PlanningProblem& problem_;
  AlikeRoutePredictor predictor_;
  const std::vector<DeviceClass>& classes_;
  std::vector<RouteShape> shapes_;  // that were worth something so far
  int least_degree_ = 1;            // of the units of the fastest plan so far
  PlanByClass best_;
  double bound_ = 0;
};

}  // namespace

absl::StatusOr<PlanByClass> PlanByClasses(const PlanningProblem& problem) { return Planning(problem).Run(); }

bool CanPlanByClasses(const PlanningProblem& problem) {
  std::set<int> processors;
  for (const DeviceCost& device : problem.devices) processors.insert(device.processor);
  const std::vector<Schedule>& schedules = problem.constraints.schedules;
  return processors.size() == problem.devices.size() &&
         std::count(schedules.begin(), schedules.end(), Schedule::kOneForwardOneBackward) > 0;
}

}  // namespace medley
