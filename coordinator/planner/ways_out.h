#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/techniques/orders.h"

// What is done where no plan fits the devices' memory with one device a unit that keeps all that backward
// needs and has all of its optimizer's state.
namespace medley {

// The fastest of the best plans that are found of each way out: units of one device and units of several of a
// host (sharing.h), which where the constraints allow it recompute and share the optimizer's state
// (memory_saving.h). Units have 2, 3, ... devices up to the first number with which a plan fits that does
// neither. The limits are those of all searches together, in equal parts. `shortage` says why nothing fits
// otherwise (ResourceExhausted), or was found that does (DeadlineExceeded), for people.
//
// `fitting` of the result says which way was taken, what it saves and costs, what the others would take and
// how far it is proven; lower_bound_seconds is 0 and nothing is called proven, for what was searched is not
// all there is. Deterministic. Pure.
//
// ResourceExhausted: no way out was found, or none whose shares have been measured; says what each would
// need. DeadlineExceeded: none was found, and a limit ended one of the searches, or that before.
absl::StatusOr<ChosenPlan> ChooseWayOut(const PlanningProblem& problem, const absl::Status& shortage,
                                        const SearchLimits& limits);

// The fastest of the plans that save memory and do not fit otherwise, of units of one device, where it is faster than
// `kept`, the best that was found of those that save nothing; else `kept`, with what is proven of both. `fitting` of
// a plan that saves says what it does and what `kept` would take; nothing is called proven of it. `pipelines`:
// the best of `kept`'s search, and then of both. All devices have whole blocks. Deterministic. Pure.
absl::StatusOr<ChosenPlan> ChooseSaving(const PlanningProblem& problem, const ChosenPlan& kept,
                                        std::vector<PredictedPlan>& pipelines, const SearchLimits& limits);

}  // namespace medley
