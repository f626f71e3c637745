#pragma once
#include <string>
#include <vector>

#include "runtime/ir/model/model_config.h"
#include "runtime/ir/plan/check_plan.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// What makes units fit that do not fit their devices, for people: of each of the first few of them every single change with which it does
// and the plan breaks no other rule than before, and what the unit then needs. Tried are its recompute, sequence_parallel, window_layers
// and activations_home, of each the least that is enough, and the largest smaller micro-batches on its routes. Empty: no unit lacks
// memory.
//
// `violations`: what CheckPlan says of `plan` with that shape and site. Checks the plan anew for each change. Pure.
std::string DescribeChangesToFit(const Plan& plan, const TrainingShape& shape, const PlanSite& site,
                                 const std::vector<PlanViolation>& violations);

}  // namespace medley
