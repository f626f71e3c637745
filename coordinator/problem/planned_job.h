#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/planner/goal.h"
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/problem/plan_provenance.h"
#include "coordinator/problem/plan_report.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/job/job_constraints.h"
#include "runtime/ir/job/reduction_choice.h"
#include "runtime/ir/job/training_spec.h"

namespace medley {

// How a device is planned to be slowed down by others of its host that are in use too.
struct PlannedSlowdown {
  struct Factor {
    double measured = 1;
    double planned = 1;  // that the prediction was made with
  };
  std::string device_kind;
  // The newest measurement of hosts like the device's, which keeps what jobs teach about all of them.
  std::string host;
  double measured_at_seconds = 0;
  Factor passes, updates;  // updates: of norms, too
};

// A job's plan on a cluster, with all that is said of it.
struct PlannedJob {
  Plan plan;
  // Whether every unit is one device without copies from and to host memory beside its passes, and stores
  // activations as its profile was measured with: then passes that take another time say something about the
  // profile. Not looked at: what neighbours of another type convert at a boundary.
  bool passes_as_profiled = true;
  int kept_devices = 0;  // that hold what they held under the plan that the job has run under
  std::string late;      // PlanForGoal::late
  StepPrediction prediction;
  // Of gradients, and within passes of units of several devices: what the prediction supposes, and its workers
  // are to do.
  std::vector<ReductionChoice> reductions;
  PlanReport report;
  std::vector<TimesUse> times_used;  // of all kinds of the cluster
  // By device, of those in use beside another in use on a host like which some were measured.
  std::map<std::string, PlannedSlowdown> slowdowns;
  std::map<std::string, ProfileCorrection> paces;  // PaceOf those in use of which something is known
  std::set<std::string> alone_on_host;             // devices in use of whose host no other is in use
};

// Whether a plan is held against the best plans of other kinds, which takes several times as long as planning. Not where
// it was chosen for its cost.
enum class Comparison : uint8_t { kNone, kOtherKinds };

// Takes the plan of `constraints` or chooses one, checks it and explains it. `left_out`: devices that the job
// may use and that are not in `cluster`, for the report. `listing`: whether plans of less price are told of, too, where the
// job does not want the least cost anyway; planning some ten times. Once limits.stop is set the best plan so far is what it
// returns, not compared with others. Pure. Used for live and offline planning alike.
// InvalidArgument: the pinned plan breaks a rule; has each violation; a list is asked for beside it. Others: MakeProblem's and
// ChoosePlanFor's.
absl::StatusOr<PlannedJob> PlanJob(const TrainingSpec& training, const JobConstraints& constraints,
                                   const Cluster& cluster, Comparison comparison,
                                   std::vector<LeftOutDevice> left_out = {}, const SearchLimits& limits = {},
                                   ParetoListing listing = ParetoListing::kIfNeeded,
                                   const JobSoFar& so_far = {});

// Of a PlanJob that a time limit stopped before it had found a plan: DeadlineExceeded in the place of its Cancelled.
absl::Status NoPlanWithin(double seconds);

// Of `plan`, made of these with Comparison::kNone, what kOtherKinds would have explained. Errors as PlanJob; Cancelled:
// limits.stop was set before that was known.
absl::StatusOr<Explanation> ComparePlan(const Plan& plan, const TrainingSpec& training,
                                        const JobConstraints& constraints, const Cluster& cluster,
                                        const SearchLimits& limits = {});

}  // namespace medley
