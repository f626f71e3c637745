#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"

// How long messages take when nothing else is under way. Devices are indices into PlanningProblem::devices.
// Sums of gradients are in reductions.h.
namespace medley {

// Seconds of one message.
double TransferSeconds(const LinkCost& link, double bytes);

// Seconds to sum a step's scalars (ScalarCount of them) over `devices`: each sends its own to every other at
// once. At least the longest message alone, and what any device's messages take on its way out.
double ReduceScalarsSeconds(const PlanningProblem& problem, const std::vector<int>& devices);

}  // namespace medley
