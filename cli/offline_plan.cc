#include "cli/offline_plan.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "coordinator/wire/kind_profiles.h"
#include "coordinator/wire/plan_report_codec.h"
#include "coordinator/wire/predicted_step_codec.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/stop_after.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/wire/cluster_codec.h"
#include "runtime/wire/job_codec.h"

namespace medley {

absl::StatusOr<v1::PlanReport> PlanOffline(const v1::PlanJobRequest& request, const v1::ClusterSpec& cluster,
                                           const std::string& kinds_directory, Comparison comparison,
                                           const std::optional<std::set<std::string>>& kinds) {
  const v1::JobSpec& spec = request.spec();
  std::optional<ModelConfig> config;
  if (!spec.model().hugging_face().empty()) {
    absl::StatusOr<ModelConfig> read = ReadModelConfig(spec.model().hugging_face());
    if (!read.ok())
      return absl::InvalidArgumentError(absl::StrCat("model.hugging_face: ", read.status().message()));
    config = *std::move(read);
  }
  ASSIGN_OR_RETURN(const TrainingSpec training, DecodeJobSpec(spec, "", config));
  ASSIGN_OR_RETURN(const JobConstraints constraints, DecodeConstraints(spec));
  absl::StatusOr<Cluster> read = DecodeCluster(cluster);
  RETURN_IF_ERROR(Annotate(read.status(), "--cluster"));
  Cluster decoded = *std::move(read);
  size_t devices = 0;
  for (const ClusterNode& node : decoded.nodes) devices += node.devices.size();
  if (spec.scheduling().least_devices() > devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("scheduling.least_devices: ", spec.scheduling().least_devices(),
                     " is more than the devices of the cluster, ", devices));
  }
  if (!kinds_directory.empty())
    RETURN_IF_ERROR(AddKindProfiles(kinds_directory, training, constraints, decoded, kinds));
  std::atomic<bool> stop = false;
  const StopAfter limit(stop, request.time_limit_seconds() > 0 ? absl::Seconds(request.time_limit_seconds())
                                                               : absl::InfiniteDuration());
  const absl::StatusOr<PlannedJob> planned =
      PlanJob(training, constraints, decoded, comparison, /*left_out=*/{}, {.stop = &stop},
              request.with_pareto() ? ParetoListing::kWanted : ParetoListing::kIfNeeded);
  if (absl::IsCancelled(planned.status())) return NoPlanWithin(request.time_limit_seconds());
  RETURN_IF_ERROR(planned.status());
  v1::PlanReport report =
      EncodePlanReport(*planned, {cluster.live_errors().begin(), cluster.live_errors().end()});
  if (request.with_predicted_step())
    *report.mutable_predicted_step() = EncodePredictedStep(*planned, training.shape);
  return report;
}

}  // namespace medley
