#include "coordinator/orchestrator/spec_planning.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/job_codec.h"
#include "runtime/wire/plan_codec.h"

namespace medley {

absl::StatusOr<TrainingSpec> ResolveSpec(const v1::JobSpec& spec, const std::string& job_id) {
  std::optional<ModelConfig> config;
  if (!spec.model().hugging_face().empty()) {
    absl::StatusOr<ModelConfig> read = ReadModelConfig(spec.model().hugging_face());
    if (!read.ok())
      return absl::InvalidArgumentError(absl::StrCat("model.hugging_face: ", read.status().message()));
    config = *read;
  }
  return DecodeJobSpec(spec, job_id, config);
}

v1::JobSpec OnDevicesOf(const Cluster& cluster, v1::JobSpec spec) {
  if (spec.has_plan()) return spec;
  auto& devices = *spec.mutable_constraints()->mutable_devices();
  devices.Clear();
  for (const ClusterNode& node : cluster.nodes) {
    for (const ClusterDevice& device : node.devices) *devices.Add() = FullName(node.name, device);
  }
  return spec;
}

absl::StatusOr<PlannedJob> PlanOn(const Cluster& cluster, const v1::JobSpec& spec,
                                  const TrainingSpec& training, Comparison comparison,
                                  const SearchLimits& limits, const std::vector<LeftOutDevice>& left_out,
                                  ParetoListing listing, const JobSoFar& so_far) {
  ASSIGN_OR_RETURN(const JobConstraints constraints, DecodeConstraints(spec));
  return PlanJob(training, constraints, cluster, comparison, left_out, limits, listing, so_far);
}

absl::StatusOr<PlannedJob> PlannedUnder(const Cluster& cluster, const v1::JobSpec& spec,
                                        const TrainingSpec& training, const Plan& plan) {
  ASSIGN_OR_RETURN(JobConstraints constraints, DecodeConstraints(spec));
  constraints.plan = plan;
  constraints.open_activations.clear();
  return PlanJob(training, constraints, cluster, Comparison::kNone);
}

absl::StatusOr<PlannedJob> PlannedFrom(const v1::PlanGrounds& grounds, const TrainingSpec& training,
                                       const Plan& plan) {
  ASSIGN_OR_RETURN(const Cluster cluster, DecodeCluster(grounds.cluster()));
  return PlannedUnder(cluster, grounds.spec(), training, plan);
}

JobSoFar SoFarOf(const v1::Job& job, int64_t step) {
  JobSoFar so_far{.plan = {}, .steps = step, .seconds = job.step_seconds_total()};
  if (!job.has_plan()) return so_far;
  if (absl::StatusOr<Plan> plan = DecodePlan(job.plan().plan()); plan.ok()) so_far.plan = *std::move(plan);
  return so_far;
}

}  // namespace medley
