#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"

// How long messages take when nothing else is under way. Devices are indices into PlanningProblem::devices. Sums of
// gradients are in reductions.h.
namespace medley {

// Seconds of one message.
double TransferSeconds(const LinkCost& link, double bytes);

// Seconds to sum a few scalars over `devices`: 2 (n - 1) times the worst latency between any two of them.
double ReduceScalarsSeconds(const PlanningProblem& problem, const std::vector<int>& devices);

}  // namespace medley
