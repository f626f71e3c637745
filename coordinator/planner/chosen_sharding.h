#pragma once
#include <vector>

#include "coordinator/planner/planner.h"
#include "coordinator/planner/techniques/orders.h"

namespace medley {

// Has who shares the optimizer's state do so by how fast each updates it (WithOptimizerSharesBySpeed), if `chosen` shares it and is predicted
// to be faster so by more than rounding. Whether it is. Takes two predictions where devices are unlike. Pure.
bool ChooseOptimizerShares(const PlanningProblem& problem, ChosenPlan& chosen);

// Has replicas share what they hold where that is predicted to make steps shorter: the optimizer's state (ZeRO-1),
// for each then updates a part and half of the sums of gradients hides behind first forwards; or, if that is faster again by more than kLeastGain, with it
// the gradients and parameters of layers (ZeRO-3). Looked at are `chosen` so, `plans`, which are the best that share nothing, and a replica for each
// device with micro-batches by speed; the nearest of them is looked at with shares by speed, too. Where one is chosen, `chosen.fitting` says so. What was proven of plans that share nothing becomes a
// bound of all, for which the search is run once more with a part of the limits, as if sharing cost nothing. Only where constraints allow
// to save memory. Takes some simulations. Pure.
void ChooseSharding(const PlanningProblem& problem, const std::vector<PredictedPlan>& plans,
                    const SearchLimits& limits, ChosenPlan& chosen);

// The same of a plan by classes, which shares the optimizer's state already if that is faster: gradients and parameters of layers, too.
// Whether they are; of such plans planning by classes proves nothing.
bool ChooseShardedParameters(const PlanningProblem& problem, const SearchLimits& limits, ChosenPlan& chosen);

}  // namespace medley
