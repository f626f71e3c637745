#pragma once
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/predict.h"
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/job.pb.h"
#include "proto/medley/v1/plan.pb.h"
#include "runtime/job/reduction_choice.h"
#include "runtime/job/training_spec.h"

namespace medley {

// A job's plan on a cluster, with all that is said of it.
struct PlannedJob {
  Plan plan;
  StepPrediction prediction;
  std::vector<ReductionChoice> reductions;  // what the prediction supposes, and its workers are to do
  v1::PlanReport report;
};

// Takes the pinned plan of `spec` or chooses one, checks it and explains it. Pure. Used for live and offline planning alike.
// InvalidArgument: the pinned plan breaks a rule; has each violation. Others: MakeProblem's and ChoosePlan's.
absl::StatusOr<PlannedJob> PlanJob(const v1::JobSpec& spec, const TrainingSpec& training, const v1::ClusterSpec& cluster);

}  // namespace medley
