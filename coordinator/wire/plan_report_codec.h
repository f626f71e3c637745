#pragma once
#include <vector>

#include "coordinator/planner/planner.h"
#include "coordinator/problem/planned_job.h"
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/plan.pb.h"

// What the coordinator tells of a plan.
namespace medley {

// The report of a pinned plan leaves lower_bound_seconds, proven_optimal and simulated_plans empty. `live_errors`: as of
// ClusterSpec.
v1::PlanReport EncodePlanReport(const PlannedJob& planned,
                                const std::vector<v1::LiveError>& live_errors = {});

// `report` after its plan was compared with those of other kinds, as `explanation` tells.
v1::PlanReport WithComparison(v1::PlanReport report, const Explanation& explanation);

}  // namespace medley
