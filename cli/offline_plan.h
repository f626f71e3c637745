#pragma once
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/problem/planned_job.h"
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// What the coordinator would answer to `request` on `cluster`, without a coordinator: the same functions, all
// devices taken as free, and no runs known that tell how far predictions were off. model.hugging_face is read from this machine.
// Errors: those of DecodeJobSpec, DecodeCluster (behind "--cluster: "), PlanJob (coordinator/problem/planned_job.h) and
// ReadModelConfig.
// `kinds_directory`: of profiles of kinds that were not measured (AddKindProfiles, whose errors it has, too); empty: none.
// `kinds`: which of these kinds it is for; none: all.
absl::StatusOr<v1::PlanReport> PlanOffline(const v1::PlanJobRequest& request, const v1::ClusterSpec& cluster,
                                           const std::string& kinds_directory = "",
                                           Comparison comparison = Comparison::kOtherKinds,
                                           const std::optional<std::set<std::string>>& kinds = std::nullopt);

}  // namespace medley
