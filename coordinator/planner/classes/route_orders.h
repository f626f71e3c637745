#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/predictor/alike_routes.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/plan/unit_op.h"

namespace medley {

struct OrderedPlan {
  Plan plan;
  int kinds = 0, faster_kinds = 0;  // of routes; and those of them that have another order than 1F1B's
};

// Other orders of passes than 1F1B's for plans of many alike routes: each route, with those that share its units, has the one that was
// found for such routes by themselves, as if there were no sums. Where none fits or is faster, it keeps 1F1B's.
class RouteOrders {
 public:
  // `predictor` must outlive it.
  explicit RouteOrders(AlikeRoutePredictor& predictor) : predictor_(predictor) {}

  // `plan`, of 1F1B, which fits and can be predicted here, in the order of `schedule`, or, of kListed, in orders that are synthesised
  // (coordinator/planner/techniques/orders.h); none: no kind of its routes gains by them, or routes that share units have none that fits. What the plan takes with sums only its prediction
  // tells. Equal plans get equal orders.
  std::optional<OrderedPlan> Order(const Plan& plan, Schedule schedule);
  // The same of kListed, with routes cut into several ranges a unit where they are faster so by themselves (InRanges); none: those of no
  // kind are.
  std::optional<OrderedPlan> OrderInRanges(const Plan& plan);

 private:
  struct Orders {
    // Such routes by themselves, in these orders; none: routes that share units have none.
    std::optional<Plan> alone;
    double seconds = 0;      // that they take so
    bool is_faster = false;  // than 1F1B
  };
  // An order that was synthesised, and how many times as long 1F1B takes.
  struct Synthesised {
    Plan alone;
    double over_named = 1;
  };
  std::optional<OrderedPlan> OrderBy(
      const Plan& plan, const std::function<const Orders&(const std::vector<int>& routes)>& orders_of);
  std::string KindIn(const Plan& plan, const std::vector<int>& routes, bool by_hosts) const;
  std::string KindOf(const Plan& plan, const std::vector<int>& routes) const;
  PlanningProblem ProblemOf(const Plan& plan, const Plan& alone, const std::vector<int>& routes) const;
  const Orders& InRangesOf(const Plan& plan, const std::vector<int>& routes);
  const Orders& OrdersOf(const Plan& plan, const std::vector<int>& routes, Schedule schedule);
  Orders FindOrders(const Plan& plan, const std::vector<int>& routes, Schedule schedule,
                    std::vector<Synthesised>& of_others);

  AlikeRoutePredictor& predictor_;
  std::map<std::pair<Schedule, std::string>, Orders> known_;  // by kind of route
  std::map<std::string, Orders> known_in_ranges_;             // likewise, of kListed
  // Of routes that differ in where their devices are alone, and so in their messages.
  std::map<std::string, std::vector<Synthesised>> synthesised_;
  int found_alone_ = 0;
};

}  // namespace medley
