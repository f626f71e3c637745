#pragma once
#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

// Plans that differ from a plan in one thing, which answer why it is not so. Not optimised further. Pure; whether they fit is not
// looked at.
namespace medley {

// Twice as many devices share the width of blocks: two of a host that hold neighbouring blocks of a route hold both together, or, where
// routes have one stage, two that hold the same; as many pairs as there are. InvalidArgument: there is none, or the width cannot be cut so.
absl::StatusOr<Plan> WithMoreTensorParallelism(const PlanningProblem& problem, const Plan& plan);

// Each layer lives with all that hold it, in even shares, which gather it when they need it, two layers at a time (fully sharded, ZeRO-3), and all
// micro-batches pass a layer before the next one. InvalidArgument: there is one route, or units are on several.
absl::StatusOr<Plan> WithShardedParameters(const PlanningProblem& problem, const Plan& plan);

// The same of one route for each device that was measured with whole blocks, with as many micro-batches as its speed bids.
// InvalidArgument: there are fewer than two devices, or fewer micro-batches than devices.
absl::StatusOr<Plan> FullyShardedReplicas(const PlanningProblem& problem, int micro_batch_sequences);

// What a tool for equal devices does: as many routes of `stages` of `degree` devices as there are devices for, in their order, with blocks
// and micro-batches split as evenly as can be. InvalidArgument: that cannot be.
absl::StatusOr<Plan> EvenGrid(const PlanningProblem& problem, int stages, int degree,
                              int micro_batch_sequences);

}  // namespace medley
