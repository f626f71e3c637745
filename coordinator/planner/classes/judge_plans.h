#pragma once
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "coordinator/planner/classes/deal_micro_batches.h"
#include "coordinator/planner/classes/plan_by_class.h"
#include "coordinator/planner/orders.h"
#include "coordinator/predictor/alike_routes.h"

namespace medley {

// So much of the optimizer's state a replica of so many has, where they share it: shares of slices are whole elements, and
// holders of parts of them not equally many.
double OwnShare(int replicas);

// Places plans by counts on devices and predicts them; of those that fit the fastest is kept. Units share the optimizer's
// state where it does not fit otherwise and the constraints let plans save memory.
class PlanJudge {
 public:
  // Both must outlive it.
  PlanJudge(AlikeRoutePredictor& predictor, PlanByClass& best) : predictor_(predictor), best_(best) {}

  // Deals the micro-batches of some routes out anew.
  using Deal = std::function<ClassedPlan(const std::vector<ShapedRoutes>&)>;
  // The step; infinite: it does not fit, or was judged before. Routes that have no place leave their work to the others by `deal`; without
  // it there is then no plan.
  double StepSeconds(const StageTable& table, ClassedPlan plan, const Deal& deal);

  // The fastest and some that are hardly slower, by their steps.
  const std::vector<PredictedPlan>& fastest() const { return fastest_; }
  bool found_any() const { return !best_.plan.units.empty(); }

 private:
  bool Fits(const Plan& plan, double optimizer_share) const;
  double Keep(Plan plan, std::string summary);
  void Remember(const Plan& plan, double step_seconds);

  AlikeRoutePredictor& predictor_;
  PlanByClass& best_;
  std::vector<PredictedPlan> fastest_;
  std::set<std::string> judged_;  // summaries
};

}  // namespace medley
