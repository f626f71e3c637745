#pragma once
#include <optional>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

// Pipelines whose units hold several ranges of the model's blocks, so that they fill and drain sooner: with r ranges a unit, a
// micro-batch comes to the last unit after an r-th of its forwards.
namespace medley {

// How a route comes to its units' ranges.
enum class RangeOrder {
  kOver,          // from the first unit to the last, again and again (interleaved, Narayanan et al. 2021)
  kThereAndBack,  // then back to the first, and so on (Qi et al. 2024, Pipeline Parallelism with Controllable Memory)
};

// `plan`, in which no unit is passed twice, with `ranges` ranges a unit, where it has so many layers: as many layers a unit as
// before but for what balances the ends, which may come to other units; a unit's ranges as alike as whole layers allow. Schedule
// and orders are left as they are, which are of no use then. None: the plan has no pipeline, is of units that have windows or are
// passed twice, or no unit has more than one range then.
std::optional<Plan> InRanges(const PlanningProblem& problem, const Plan& plan, int ranges, RangeOrder order);

}  // namespace medley
