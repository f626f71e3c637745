#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/planner/step_portrait.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/ir/plan/plan.h"

// Which way ranks sum, and what other ways would take: gradients over the ranks that hold the same, and activations and their gradients
// within a unit. Of each kind only the largest is told. How it goes is what the workers choose (Reductions), and beside it stands what
// they did not choose, by the same measurements. Where a library of the devices sums there are no algorithms to choose from; what is left to
// choose within a unit is whether micro-batches are cut into parts, so a step otherwise is predicted for that.
//
// `reductions`: of `problem`; one for all that is told of a plan, for of many devices it takes long to make. (That of the prediction is gone
// with its simulation, and of alike ranks it is of some of the devices only.)
namespace medley {

// The largest sum of gradients; empty: nobody holds what others hold.
absl::StatusOr<std::string> DescribeReductions(const PlanningProblem& problem, const Plan& plan,
                                               Reductions& reductions);

// What the unit that takes longest over it exchanges, in a step of `step_seconds`; empty: every unit is one device. Takes a simulation, or
// two.
absl::StatusOr<std::string> DescribeExchanges(const PlanningProblem& problem, const Plan& plan,
                                              const UnitExchange& longest, double step_seconds,
                                              Reductions& reductions);

}  // namespace medley
