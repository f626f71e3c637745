#pragma once
#include <atomic>

#include "absl/status/statusor.h"
#include "coordinator/planner/classes/plan_by_class.h"
#include "coordinator/predictor/cost_model.h"

namespace medley {

// A plan for many devices: routes of any shapes under 1F1B, or under GPipe where that alone is allowed, each stage on one device or on several of one kind and
// host that share it evenly, as their times were measured; stages recompute where they would not fit otherwise,
// units share the optimizer's state (ZeRO-1), and where nothing fits so layers live in host memory, all if the constraints let plans
// save memory. Devices may be left out. Works with counts of devices
// of each class (class_search.h) and predicts what comes out by AlikeRoutePredictor. Pure and deterministic.
//
// `problem` must be valid (CheckProblem), its devices on processors of their own.
// `stop`, looked at often if it is not null: once it is true the best plan found so far is given.
// ResourceExhausted: nothing of that kind fits the memory and what the constraints allow; class_shortage.h says why. Cancelled: it was
// stopped before any plan was found.
absl::StatusOr<PlanByClass> PlanByClasses(const PlanningProblem& problem,
                                          const std::atomic<bool>* stop = nullptr);

// Whether PlanByClasses can plan it: devices do not share processors.
bool CanPlanByClasses(const PlanningProblem& problem);

}  // namespace medley
