#pragma once
#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/plan.pb.h"
#include "runtime/job/training_spec.h"

namespace medley {

// Says in `report`, whose devices are of `cluster`, which of them are emulated, and what the profiles are
// from that the prediction for `training` was made of: of each kind the newest one. Pure.
void AddProvenance(const TrainingSpec& training, const v1::ClusterSpec& cluster, v1::PlanReport& report);

}  // namespace medley
