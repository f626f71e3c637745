#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"

// How long messages take when nothing else is under way. Devices are indices into PlanningProblem::devices.
// Sums of gradients are in reductions.h.
namespace medley {

// Seconds of one message.
double TransferSeconds(const LinkCost& link, double bytes);

// Seconds to sum a step's scalars (ScalarCount of them) over `devices`, in the order of their ranks, as ScalarTree
// (runtime/ir/collective) has the workers do it: what all have who gather to one or exchange, and then the way back. What
// one device sends or gets at once takes at least the longest message alone, and all of them on its way out or in.
double ReduceScalarsSeconds(const PlanningProblem& problem, const std::vector<int>& devices);

}  // namespace medley
