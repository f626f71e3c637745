#include "cli/offline_plan.h"

#include <optional>

#include "coordinator/problem/planned_job.h"
#include "coordinator/wire/plan_report_codec.h"
#include "coordinator/wire/predicted_step_codec.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/job_codec.h"

namespace medley {

absl::StatusOr<v1::PlanReport> PlanOffline(const v1::PlanJobRequest& request,
                                           const v1::ClusterSpec& cluster) {
  const v1::JobSpec& spec = request.spec();
  std::optional<ModelConfig> config;
  if (!spec.model().hugging_face().empty()) {
    ASSIGN_OR_RETURN(config, ReadModelConfig(spec.model().hugging_face()));
  }
  ASSIGN_OR_RETURN(const TrainingSpec training, DecodeJobSpec(spec, "", config));
  ASSIGN_OR_RETURN(const JobConstraints constraints, DecodeConstraints(spec));
  ASSIGN_OR_RETURN(const Cluster decoded, DecodeCluster(cluster));
  ASSIGN_OR_RETURN(const PlannedJob planned,
                   PlanJob(training, constraints, decoded, Comparison::kOtherKinds));
  v1::PlanReport report = EncodePlanReport(planned);
  if (request.with_predicted_step())
    *report.mutable_predicted_step() = EncodePredictedStep(planned, training.shape);
  return report;
}

}  // namespace medley
