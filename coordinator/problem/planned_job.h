#pragma once
#include <map>
#include <set>
#include <string>
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
  std::map<std::string, double> corrections;  // by device kind: what the prediction multiplied the profile's passes by
  std::set<std::string> beside_others;        // devices in use that others in use on their host are predicted to slow down
};

// Takes the pinned plan of `spec` or chooses one, checks it and explains it. `left_out`: devices that the job may use and that
// are not in `cluster`, for the report. Pure. Used for live and offline planning alike.
// InvalidArgument: the pinned plan breaks a rule; has each violation. Others: MakeProblem's and ChoosePlan's.
absl::StatusOr<PlannedJob> PlanJob(const v1::JobSpec& spec, const TrainingSpec& training, const v1::ClusterSpec& cluster,
                                   const std::vector<v1::LeftOutDevice>& left_out = {});

}  // namespace medley
