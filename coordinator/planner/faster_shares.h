#pragma once
#include <vector>

#include "coordinator/planner/planner.h"
#include "coordinator/predictor/cost_model.h"

namespace medley {

// Even shares of the blocks' width that one device of each class has to be measured with although something fits without, for plans may be
// faster where 2, 4, ... alike devices of a host have them. Asked for where devices have memory of their own and do not each hold all blocks
// with enough micro-batches to do, and as far as twice as many are estimated to take a quarter less for a micro-batch at least: an equal part
// of whole blocks' times, and what they sum by the links of `problem`. None: nothing may be faster, or all are measured. Pure.
std::vector<WantedShare> FasterShares(const PlanningProblem& problem);

}  // namespace medley
