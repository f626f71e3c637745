#include "coordinator/planner/classes/class_planner.h"

#include <algorithm>
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
// Of the optimizer's state of a stage, what it is taken to carry itself where it is shared.
constexpr double kSharedOptimizer = 1.0 / 8;

// Whether a rank of each kind fits its device, one for each shape and stage.
bool Fits(const PlanningProblem& problem, const Plan& plan) {
  std::set<std::string> seen;
  Rank first_rank = 0;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    const DeviceCost& device = *FindDevice(problem, unit.devices.front());
    const std::string key =
        absl::StrCat(device.kind, "|", unit.devices.size(), "|", unit.chunks[0].first.value(), "|",
                     unit.chunks[0].end.value(), "|", static_cast<int>(unit.recompute));
    if (seen.insert(key).second &&
        !medley::Fits(MemoryOfRank(plan, first_rank, problem.shape), RoomOf(problem, plan, first_rank)))
      return false;
    first_rank = first_rank + static_cast<int>(unit.devices.size());
  }
  return true;
}

int Replicas(const ClassedPlan& plan) {
  int routes = 0;
  for (const ShapedRoutes& shaped : plan.routes) routes += shaped.routes;
  return routes;
}

class Planning {
 public:
  explicit Planning(const PlanningProblem& problem) : problem_(problem), classes_(DeviceClassesOf(problem)) {}

  absl::StatusOr<PlanByClass> Run() {
    Try(1);
    if (problem_.constraints.saves_memory) Try(kSharedOptimizer);
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
  void Try(double optimizer_share) {
    StageTable table(problem_, classes_, optimizer_share);
    const int layers = problem_.shape.model.layers, allowed = problem_.constraints.max_stages;
    const int most_stages = std::min({layers, kMostStages, allowed > 0 ? allowed : layers});
    int replicas = 2;
    for (int round = 0; round < 2; ++round) {
      const SumModel sums(problem_, classes_, replicas);
      ClassSearch search(table, sums, most_stages);
      const ClassedPlan found = search.Run();
      best_.priced_shapes += search.priced();
      if (found.empty()) return;
      const double bound = search.LowerBoundSeconds();
      bound_ = bound_ == 0 ? bound : std::min(bound_, bound);
      Keep(table, found, optimizer_share < 1);
      if (Replicas(found) == replicas) return;
      replicas = Replicas(found);
    }
  }

  void Keep(const StageTable& table, const ClassedPlan& found, bool shards_optimizer) {
    Plan plan = PlaceRoutes(table, found.routes, shards_optimizer && Replicas(found) > 1);
    int sequences = 0;
    for (const Route& route : plan.routes) sequences += route.micro_batches * route.micro_batch_sequences;
    if (sequences != problem_.shape.global_batch_sequences || !Fits(problem_, plan)) return;
    const absl::StatusOr<AlikePrediction> predicted = PredictAlikeRoutes(problem_, plan);
    if (!predicted.ok()) return;
    if (!best_.plan.units.empty() && predicted->step_seconds >= best_.step_seconds) return;
    best_.plan = std::move(plan);
    best_.step_seconds = predicted->step_seconds;
    best_.summary = absl::StrFormat("%d routes of %d kinds over %d classes of devices", Replicas(found),
                                    predicted->kinds_of_routes, classes_.size());
  }

  const PlanningProblem& problem_;
  const std::vector<DeviceClass> classes_;
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
