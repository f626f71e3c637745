#include "cli/offline_plan.h"

#include <optional>
#include <utility>

#include "coordinator/problem/planned_job.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/wire/job_codec.h"

namespace medley {

absl::StatusOr<v1::PlanReport> PlanOffline(const v1::JobSpec& spec, const v1::ClusterSpec& cluster) {
  std::optional<ModelConfig> config;
  if (!spec.model().hugging_face().empty()) {
    ASSIGN_OR_RETURN(config, ReadModelConfig(spec.model().hugging_face()));
  }
  ASSIGN_OR_RETURN(const TrainingSpec training, DecodeJobSpec(spec, "", config));
  ASSIGN_OR_RETURN(PlannedJob planned, PlanJob(spec, training, cluster, Comparison::kOtherKinds));
  return std::move(planned.report);
}

}  // namespace medley
