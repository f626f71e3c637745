#pragma once
#include "absl/status/statusor.h"
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/job.pb.h"

namespace medley {

// What the coordinator would plan for `spec` on `cluster`, without a coordinator: the same functions, all
// devices taken as free. model.hugging_face is read from this machine.
// Errors: those of DecodeJobSpec, DecodeCluster, PlanJob (coordinator/problem/planned_job.h) and
// ReadModelConfig.
absl::StatusOr<v1::PlanReport> PlanOffline(const v1::JobSpec& spec, const v1::ClusterSpec& cluster);

}  // namespace medley
