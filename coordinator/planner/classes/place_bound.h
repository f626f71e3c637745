#pragma once
#include "absl/functional/function_ref.h"
#include "coordinator/predictor/cost_model.h"

namespace medley {

// A time before which no plan on devices of several places (parts_alone.h) does the whole batch, by what goes between them; `known_seconds`: of some
// plan, if that is less than what can be said. 0: nothing can be said, or nothing beyond `bound_seconds`, which is known already.
//
// If at two places there are whole routes, each parameter is held at both, and all gradients are summed over a place's way: F seconds.
// Otherwise all routes but those within one place, its home, cross a way with each micro-batch, forwards and backwards. In known_seconds so few
// sequences can do so that the home has nearly the whole batch to itself. So nothing takes less than F and what the best home takes for so
// many sequences: `at_home`, a bound for devices of one place, of which one of those that are alike is asked.
//
// Nothing is said of devices whose hosts' cards are not known: they are not predicted to share a way in sums.
double PlaceBoundSeconds(const PlanningProblem& problem, double bound_seconds, double known_seconds,
                         absl::FunctionRef<double(const PlanningProblem& home)> at_home);

}  // namespace medley
