#pragma once
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

 private:
  struct Orders {
    std::optional<Plan>
        alone;  // such routes by themselves, in these orders; none: routes that share units have none
    bool is_faster = false;  // than 1F1B
  };
  // An order that was synthesised, and how many times as long 1F1B takes.
  struct Synthesised {
    Plan alone;
    double over_named = 1;
  };
  const Orders& OrdersOf(const Plan& plan, const std::vector<int>& routes, Schedule schedule);
  Orders FindOrders(const Plan& plan, const std::vector<int>& routes, Schedule schedule,
                    std::vector<Synthesised>& of_others);

  AlikeRoutePredictor& predictor_;
  std::map<std::pair<Schedule, std::string>, Orders> known_;  // by kind of route
  // Of routes that differ in where their devices are alone, and so in their messages.
  std::map<std::string, std::vector<Synthesised>> synthesised_;
  int found_alone_ = 0;
};

}  // namespace medley
