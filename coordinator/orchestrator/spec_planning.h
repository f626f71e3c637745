#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/problem/planned_job.h"
#include "proto/medley/v1/coordinator.pb.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/job/training_spec.h"

// A job's spec as planning takes it.
namespace medley {

// In domain terms; reads the model's dimensions where the spec names a directory.
absl::StatusOr<TrainingSpec> ResolveSpec(const v1::JobSpec& spec, const std::string& job_id);

// The spec with the cluster's devices as its constraint: of those that it names some may be gone, or too
// small. A pinned plan needs its own.
v1::JobSpec OnDevicesOf(const Cluster& cluster, v1::JobSpec spec);

// PlanJob by the spec's constraints.
absl::StatusOr<PlannedJob> PlanOn(const Cluster& cluster, const v1::JobSpec& spec,
                                  const TrainingSpec& training, Comparison comparison,
                                  const SearchLimits& limits, const std::vector<LeftOutDevice>& left_out = {},
                                  ParetoListing listing = ParetoListing::kIfNeeded,
                                  const JobSoFar& so_far = {});

// `plan`, of a job with this spec, by what is known of the cluster: PlanJob's errors.
absl::StatusOr<PlannedJob> PlannedUnder(const Cluster& cluster, const v1::JobSpec& spec,
                                        const TrainingSpec& training, const Plan& plan);

// `plan`, of a job whose spec and cluster those are of `grounds`, with all that was known of it when it was planned. `training`: of that
// spec. FailedPrecondition: profiles of older coordinators may be kept under what this one calls otherwise.
absl::StatusOr<PlannedJob> PlannedFrom(const v1::PlanGrounds& grounds, const TrainingSpec& training,
                                       const Plan& plan);

// Of a job that goes on after `step`. Its plan, if it does not decode, is none.
JobSoFar SoFarOf(const v1::Job& job, int64_t step);

}  // namespace medley
