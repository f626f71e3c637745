#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

// Every plan of a small problem, for tests. Shares nothing with the planner.
namespace medley {

// Whether devices of one kind may be taken in their order only. Sound if they are alike in everything.
enum class SameKind : uint8_t { kAllOrders, kInOrder };

// Calls `visit` for every plan whose units are numbered route by route, memory not looked at; the routes in
// every order. Stops once `visit` returns false.
void VisitEveryPlan(const PlanningProblem& problem, SameKind same_kind,
                    const std::function<bool(const Plan&)>& visit);

struct BruteForce {
  std::optional<double> least_seconds;  // none if no plan fits
  int64_t plans = 0;
  bool complete = true;  // false: there are more than `most_plans`
};
// Where constraints allow to save memory, also with the optimizer's state shared by all holders.
BruteForce LeastSeconds(const PlanningProblem& problem, SameKind same_kind, int64_t most_plans);

}  // namespace medley
