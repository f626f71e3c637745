#include "coordinator/orchestrator/spec_planning.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/wire/job_codec.h"

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
                                  ParetoListing listing, const Plan& running) {
  ASSIGN_OR_RETURN(const JobConstraints constraints, DecodeConstraints(spec));
  return PlanJob(training, constraints, cluster, comparison, left_out, limits, listing, running);
}

}  // namespace medley
