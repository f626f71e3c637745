#pragma once
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "coordinator/planner/classes/deal_micro_batches.h"
#include "coordinator/planner/classes/plan_by_class.h"
#include "coordinator/planner/classes/route_orders.h"
#include "coordinator/predictor/alike_routes.h"

namespace medley {

// A plan by counts, and what it was predicted to take.
struct JudgedPlan {
  ClassedPlan plan;
  double step_seconds = 0;
};
inline bool IsFaster(const JudgedPlan& a, const JudgedPlan& b) { return a.step_seconds < b.step_seconds; }

// Places plans by counts on devices and predicts them; of those that fit the fastest is kept. Where the constraints let plans save
// memory, replicas share the optimizer's state if a plan does not fit otherwise, or is faster so.
class PlanJudge {
 public:
  // Both must outlive it.
  PlanJudge(AlikeRoutePredictor& predictor, PlanByClass& best) : predictor_(predictor), best_(best) {}

  // Deals the micro-batches of some routes out anew.
  using Deal = std::function<ClassedPlan(const std::vector<ShapedRoutes>&)>;
  // The step; infinite: it does not fit, was judged before, or has bundles. Routes that have no place leave their work to the others by `deal`, in
  // `plan`, too; without it there is then no plan.
  double StepSeconds(const StageTable& table, ClassedPlan& plan, const Deal& deal);

  // The same of a plan whose routes have a place, with its passes in the best of some orders other than 1F1B's (RouteOrders);
  // infinite: none is faster for any of them, or fits a bundle.
  double OrderedStepSeconds(const StageTable& table, const ClassedPlan& plan);

  // Puts the fastest plan, of routes that share no units, in orders of several ranges a unit if it is faster so.
  void CutIntoRanges();

  // The orders of the fastest, for people; empty: it is under 1F1B.
  const std::string& orders() const { return orders_; }
  bool found_any() const { return !best_.plan.units.empty(); }

 private:
  bool Fits(const Plan& plan, double optimizer_share) const;
  bool ShareOptimizer(Plan& plan) const;
  double Keep(Plan plan, std::string summary);
  double PredictedSeconds(const Plan& plan);

  AlikeRoutePredictor& predictor_;
  PlanByClass& best_;
  RouteOrders route_orders_{predictor_};
  std::string orders_;
  std::set<std::string> judged_;  // summaries
};

}  // namespace medley
