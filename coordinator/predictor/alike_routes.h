#pragma once
#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

struct AlikePrediction {
  double step_seconds = 0;
  int kinds_of_routes = 0;  // that were simulated
};

// The step of a plan of many devices whose routes meet in their sums of gradients alone: of routes that are alike (in
// devices, links, blocks and micro-batches) one is simulated as PredictStep does, and then the end of the step, when
// sums over all holders follow the last backwards, is worked out by kinds of routes. A plan of a thousand devices
// takes milliseconds.
//
// For small plans it is what PredictStep says, up to what a sum's messages and a pipeline's take from each other. What
// a sum over more than kMostSummed members takes is extrapolated from smaller groups of the same make-up, for each
// algorithm by how its number of rounds grows. Devices of a host that slow each other down count as if all that the
// plan uses compute at once.
//
// InvalidArgument: as PredictStep; or two routes share a unit or a processor, or layers live elsewhere than on the
// devices ("routes[3]: ..."), which this prediction does not know.
absl::StatusOr<AlikePrediction> PredictAlikeRoutes(const PlanningProblem& problem, const Plan& plan);

constexpr int kMostSummed = 64;

}  // namespace medley
