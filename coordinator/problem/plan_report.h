#pragma once
#include "coordinator/planner/planner.h"
#include "proto/medley/v1/plan.pb.h"

namespace medley {

enum class PlanOrigin { kPlanner, kPinned };

// The part of a report that tells of other plans: `rejected` and `explanation` of `report` become what these
// say.
void EncodeComparison(const Explanation& explanation, const std::string& text, v1::PlanReport& report);

// What the coordinator tells of a plan. `text`: the explanation as a terminal shows it (FormatExplanation).
// The report of a pinned plan leaves lower_bound_seconds, proven_optimal and simulated_plans empty.
v1::PlanReport EncodePlanReport(const ChosenPlan& chosen, const Explanation& explanation,
                                const TrainingShape& shape, PlanOrigin origin, const std::string& text);

}  // namespace medley
