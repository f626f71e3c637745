#include "coordinator/planner/classes/class_planner.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/classes/candidate_plans.h"
#include "coordinator/planner/classes/class_tables.h"
#include "coordinator/planner/classes/class_zones.h"
#include "coordinator/planner/classes/lower_bound.h"
#include "coordinator/planner/classes/order_plans.h"
#include "coordinator/planner/classes/ordered_seconds.h"
#include "coordinator/planner/classes/parts_alone.h"
#include "coordinator/planner/classes/place_bound.h"
#include "coordinator/planner/classes/replica_rounds.h"
#include "coordinator/planner/classes/resources.h"
#include "coordinator/planner/classes/slow_sums.h"
#include "coordinator/planner/techniques/unit_order.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/work_bound.h"
#include "runtime/base/counted.h"
#include "runtime/base/stop_flag.h"

namespace medley {
namespace {

// Of routes that are bounded: where more stages exist no more is known than that devices compute.
constexpr int kMostBoundedStages = 128;
// So many plans whose classes have zones are predicted.
constexpr size_t kMostZoned = 8;
// So many zones and bundles of each number are looked at for passes in any order.
constexpr size_t kMostInOrder = 4;

// The course: what is looked for, and in which order. Each step has a file of its own.
class Planning {
 public:
  Planning(const PlanningProblem& problem, const std::atomic<bool>* stop)
      : problem_(problem), stop_(stop), predictor_(problem) {}

  absl::StatusOr<PlanByClass> Run() {
    Search();
    // Under 1F1B each micro-batch copies a layer's parameters four times, so what fits otherwise is seldom slower.
    const bool may_home = problem_.constraints.saves_memory && !keeps_batches_ &&
                          std::any_of(problem_.devices.begin(), problem_.devices.end(), CopiesAreMeasured);
    if (!found_any() && may_home) {
      tables_.LetLayersOnHosts();
      Search();
    }
    if (!found_any() && stopped())
      return absl::CancelledError("planning was stopped before it had found a plan");
    if (!found_any()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "planning by classes found no plan of ", Counted(problem_.devices.size(), "device"), " that fits"));
    }
    best_.named_step_seconds = best_.step_seconds;
    if (problem_.constraints.synthesised_orders) {
      MovesBetween moves = tables_.Moves(nullptr);
      moves.estimate = [this, sums_of = moves.sums_of](StageTable& table, const ClassedPlan& plan) {
        return LeastOrderedSeconds(table, tables_.sums_of_classes(),
                                   sums_of(plan.replicas(), /*least_degree=*/1), plan);
      };
      OrderPasses(candidates_.judge(), std::move(moves), candidates_.judged(), ZonesInOrder(), stop_, best_);
    }
    TakePartIfFaster();
    NumberByHosts();
    return std::move(best_);
  }

 private:
  bool stopped() const { return IsStopped(stop_); }
  bool found_any() const { return candidates_.found_any(); }

  void Search() {
    LookAtZones();
    LookAtRounds(tables_.classes());
    // Sums were taken for those over all classes; over fewer, and not across slow links, they may be faster.
    std::vector<DeviceClass> left = tables_.classes();
    while (!stopped() && LeaveOutSlowest(predictor_, left)) LookAtRounds(left);
    const std::vector<DeviceClass> used = ClassesUsed();
    if (!used.empty() && used.size() < left.size()) LookAtRounds(used);
    candidates_.Improve();
    if (found_any() && !stopped()) Bound();
  }

  // Routes that are all alike, with layers of its own for each class.
  void LookAtZones() {
    const std::vector<ClassedPlan> plans = Zoned([&](StageTable& table, int routes) {
      return PlansOfZones(table, routes, tables_.most_stages(), kMostZoned, stop_);
    });
    for (size_t i = 0; i < std::min(plans.size(), kMostZoned) && !stopped(); ++i)
      candidates_.Judge(tables_.TableOf(plans[i].replicas()), plans[i], nullptr);
  }

  // The same, and bundles, for passes in orders of their own.
  std::vector<ClassedPlan> ZonesInOrder() {
    return Zoned([&](StageTable& table, int bundles) {
      return PlansOfOrderedZones(table, tables_.sums_of_classes(), bundles, tables_.most_stages(),
                                 kMostInOrder, stop_);
    });
  }

  // What `plans_of` finds for numbers of routes that are worth it, the best estimate first.
  template <typename PlansOf>
  std::vector<ClassedPlan> Zoned(const PlansOf& plans_of) {
    std::vector<double> rates;
    for (const DeviceClass& of : tables_.classes()) rates.push_back(LayersASecond(problem_, of));
    std::vector<ClassedPlan> plans;
    const Resources& resources = tables_.resources();
    for (const int routes : CountsForZones(tables_.classes(), rates, tables_.most_routes())) {
      StageTable& table = tables_.TableOf(routes);
      for (ClassedPlan& plan : plans_of(table, routes)) {
        const bool allowed = RoutesOf(plan.routes) <= tables_.most_routes() &&
                             resources.Has(resources.Uses(DevicesOf(table, plan.routes)));
        if (allowed) plans.push_back(std::move(plan));
      }
    }
    std::stable_sort(plans.begin(), plans.end(), [](const ClassedPlan& a, const ClassedPlan& b) {
      return a.estimated_seconds < b.estimated_seconds;
    });
    const auto same = [](const ClassedPlan& a, const ClassedPlan& b) {
      return a.replicas() == b.replicas() && SameShape(a.routes[0].shape, b.routes[0].shape);
    };
    plans.erase(std::unique(plans.begin(), plans.end(), same), plans.end());
    return plans;
  }

  void LookAtRounds(const std::vector<DeviceClass>& classes) {
    ReplicaRounds rounds(tables_, candidates_, classes, stop_);
    rounds.Run();
    best_.priced_shapes += rounds.priced();
    // With fewer classes the bound would not be one of all plans.
    if (classes.size() < tables_.classes().size()) return;
    busy_seconds_ = rounds.BusySeconds();
    const std::vector<RouteShape> shapes = rounds.ShapesOfUse();
    known_shapes_.insert(known_shapes_.end(), shapes.begin(), shapes.end());
  }

  std::vector<DeviceClass> ClassesUsed() const {
    std::set<int> numbers;
    for (const Unit& unit : best_.plan.units) {
      for (const std::string& name : unit.devices)
        numbers.insert(predictor_.ClassOf(predictor_.DeviceNamed(name)));
    }
    std::vector<DeviceClass> used;
    for (const int number : numbers) used.push_back(tables_.classes()[number]);
    return used;
  }

  void Bound() {
    const std::vector<RouteShape> shapes = candidates_.ShapesOfUse();
    known_shapes_.insert(known_shapes_.end(), shapes.begin(), shapes.end());
    const KnownPlans known{.shapes = std::move(known_shapes_),
                           .step_seconds = best_.step_seconds,
                           .routes = static_cast<int>(best_.plan.routes.size()),
                           .shards_optimizer = best_.plan.shards_optimizer};
    best_.busy_seconds = best_.lower_bound_seconds = busy_seconds_;
    if (keeps_batches_) return;  // what is said of routes is said of 1F1B
    // Of longer routes than are searched, too.
    if (const int stages = MostStagesOf(problem_); stages <= kMostBoundedStages) {
      best_.lower_bound_seconds = std::max(
          busy_seconds_, LowerBoundSeconds(problem_, tables_.classes(), tables_.memories(), known,
                                           tables_.layers_on_hosts(), stages, tables_.most_routes(), stop_));
    }
    // Of a site or rack that could not keep up if it computed all the time no more need be known.
    const auto at_home = [&](PlanningProblem home) {
      if (WorkSeconds(home) >= best_.step_seconds) return best_.step_seconds;
      home.constraints.synthesised_orders = false;
      const absl::StatusOr<PlanByClass> plan = PlanByClasses(home, stop_);
      // That none was found that fits there does not say that none does.
      return plan.ok() ? plan->lower_bound_seconds : 0;
    };
    best_.lower_bound_seconds =
        std::max(best_.lower_bound_seconds,
                 PlaceBoundSeconds(problem_, best_.lower_bound_seconds, best_.step_seconds, at_home));
  }

  // Over the devices of one site, rack or host alone plans are made for its own classes, sums and counts of replicas, with no way out of it.
  void TakePartIfFaster() {
    for (const PlanningProblem& home : PartsAlone(problem_)) {
      if (stopped() || WorkSeconds(home) >= best_.step_seconds) continue;
      absl::StatusOr<PlanByClass> at_home = PlanByClasses(home, stop_);
      if (!at_home.ok()) continue;
      best_.priced_shapes += at_home->priced_shapes;
      best_.predicted_plans += at_home->predicted_plans;
      const absl::StatusOr<double> predicted = predictor_.Predict(at_home->plan);
      if (!predicted.ok() || *predicted >= best_.step_seconds) continue;
      best_.plan = std::move(at_home->plan);
      best_.step_seconds = *predicted;
      best_.named_step_seconds = std::min(best_.named_step_seconds, at_home->named_step_seconds);
      best_.lower_bound_seconds = std::min(best_.lower_bound_seconds, best_.named_step_seconds);
      best_.summary = std::move(at_home->summary);
      best_.orders = std::move(at_home->orders);
    }
  }

  // What is shared was predicted so. Parts of slices may differ by place, which memory for layers elsewhere goes by.
  void NumberByHosts() {
    Plan by_host = WithUnitsByHost(problem_, best_.plan);
    if (FitsMemory(problem_, by_host)) best_.plan = std::move(by_host);
  }

  const PlanningProblem& problem_;
  const std::atomic<bool>* const stop_;
  const bool keeps_batches_ = ScheduleByClasses(problem_.constraints) == Schedule::kGPipe;
  AlikeRoutePredictor predictor_;
  ClassTables tables_{problem_, predictor_};
  PlanByClass best_;
  CandidatePlans candidates_{tables_, best_, stop_};
  std::vector<RouteShape> known_shapes_;  // for the bound, whose kinds are those of ClassTables::TableOf
  double busy_seconds_ = 0;
};

}  // namespace

absl::StatusOr<PlanByClass> PlanByClasses(const PlanningProblem& problem, const std::atomic<bool>* stop) {
  return Planning(problem, stop).Run();
}

bool CanPlanByClasses(const PlanningProblem& problem) {
  std::set<int> processors;
  for (const DeviceCost& device : problem.devices) processors.insert(device.processor);
  return processors.size() == problem.devices.size();
}

}  // namespace medley
