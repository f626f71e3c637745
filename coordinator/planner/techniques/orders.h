#pragma once
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/order_bound.h"

// Orders of passes for the times that are predicted of a plan, beside the schedules that have names.
namespace medley {

// A plan and what it is predicted to take.
struct PredictedPlan {
  Plan plan;
  double step_seconds = 0;
};

// The same plan under 1F1B.
Plan WithoutOrders(Plan plan);

// Whether units run passes for one another, so that their order may matter.
bool HasPipeline(const Plan& plan);

// `plan` with passes in an order that is synthesised for them, the rest being as it is. It fits the memory of
// its devices by the same model as any plan, and is predicted below `below_seconds`; none: no such order was
// found. The order is made for a step by itself, or, with the goal of a short period, for steps that follow each
// other with post-validation. Equal arguments give equal plans. Pure.
std::optional<PredictedPlan> WithSynthesisedOrder(const PlanningProblem& problem, const Plan& plan,
                                                  double below_seconds,
                                                  OrderGoal goal = OrderGoal::kMakespan);

// The most ranges that a unit of `plan` holds.
int MostRanges(const Plan& plan);

// Makes `best` the better of itself and `plan`, which has a named schedule, cut into several ranges a unit, with an order synthesised
// for those: such pipelines fill and drain sooner. More ranges have to gain kLeastGain.
void TryInRanges(const PlanningProblem& problem, const Plan& plan, PredictedPlan& best);

// The best of `plans`, which are valid and have named schedules, with a synthesised order; none: none is
// predicted to be faster than `named` by more than kLeastGain of its time. Once `stop` is set, if it is not null: of
// those looked at until then.
constexpr double kLeastGain = 0.005;
std::optional<PredictedPlan> BestSynthesised(const PlanningProblem& problem,
                                             const std::vector<PredictedPlan>& plans,
                                             const PredictedPlan& named,
                                             const std::atomic<bool>* stop = nullptr);

// What is told to people of an order that was chosen over `named`, the best plan of a named schedule.
std::string DescribeOrder(const PlanningProblem& problem, const PredictedPlan& chosen,
                          const PredictedPlan& named, bool named_is_proven);
// The same where none was chosen, of so many plans.
std::string DescribeNoOrder(size_t plans);

}  // namespace medley
