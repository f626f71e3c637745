#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/group_buckets.h"
#include "coordinator/predictor/shared_ways.h"
#include "coordinator/predictor/stage_groups.h"

namespace medley {

// How long the step of some groups of stages takes whose passes are known, with the sums of what they hold.
//
// Each bucket is summed when the last backward of all its holders has gone through it, in the order that it has for all (RunInTurn). Then
// come norms, the sum of scalars, for which all wait, and updates. Where the optimizer is sharded sums are scattered around rings; others
// gather what owners updated in the step before, at its begin: each first forward waits for what it uses, and
// whatever a route's first micro-batch is late by on one of its stages, all of the route is late by at most.
double SecondsOfGroups(const PlanningProblem& problem, const SharedWays& ways, bool shards_optimizer,
                       const std::vector<GroupBucket>& buckets, StageGroups groups);

}  // namespace medley
