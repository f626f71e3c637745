#pragma once
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"
#include "runtime/ir/program/timed_pipeline.h"

namespace medley {

// A plan's passes as far as their order is concerned: what each takes is the mean of a simulated step with all
// backwards in two, so that what ranks of a unit sum, and devices that slow each other down, are in it. What
// micro-batches keep is in bytes of the rank of the unit that keeps most; `memory_limit` has what the rank with
// the least room leaves of it, parallel to the units.
struct OrderProblem {
  TimedPipeline pipeline;
  std::vector<double> memory_limit;
};
// Errors as PredictStep's.
absl::StatusOr<OrderProblem> MakeOrderProblem(const PlanningProblem& problem, const Plan& plan);

// Writes what `pipeline` says of the passes of `plan`, which is its own, as Unit::paces.
void SetPaces(const TimedPipeline& pipeline, Plan& plan);

// `plan` with the passes of its units in these orders, parallel to them, and no paces.
Plan WithOrders(Plan plan, std::vector<UnitOrder> orders);

}  // namespace medley
