#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// Two hosts (HostOf), and what goes between them in a step.
struct HostPair {
  int a = 0, b = 0;    // a < b
  double seconds = 0;  // of all messages, as if each went after another
};

// Those between which `plan`, valid for `problem`, has messages from stage to stage or sums, the longest first; the scalars that all
// ranks sum do not count. Compiles what each rank does, and makes the schedule of each sum: for some hundred devices. Empty, too, where
// a device of the plan is not in the problem. Deterministic. Pure.
std::vector<HostPair> HostPairsInUse(const PlanningProblem& problem, const Plan& plan);

}  // namespace medley
