#pragma once
#include <atomic>
#include <vector>

#include "coordinator/planner/classes/improve.h"
#include "coordinator/planner/classes/judge_plans.h"
#include "coordinator/planner/classes/plan_by_class.h"

namespace medley {

// Has passes of `zones`, which are estimated for any order, the best first, and of the fastest of `plans`, which were judged under 1F1B, in
// other orders (RouteOrders), and looks for better plans near the fastest of those: which plan is best depends on the order. `best`,
// where `judge` keeps plans, becomes the fastest of all if that gains more than kLeastGain over what it was, and stays what it was if not;
// its `orders` say what came of it. `moves`: its `predict` is not asked; its `estimate` is of any order. Deterministic, unless it
// is stopped.
void OrderPasses(PlanJudge& judge, MovesBetween moves, std::vector<JudgedPlan> plans,
                 const std::vector<ClassedPlan>& zones, const std::atomic<bool>* stop, PlanByClass& best);

}  // namespace medley
