#pragma once
#include "coordinator/problem/planned_job.h"
#include "proto/medley/v1/plan.pb.h"

namespace medley {

// The lanes of a planned job (coordinator/problem/predicted_lanes.h); `shape` is what it was planned for.
v1::PredictedStep EncodePredictedStep(const PlannedJob& planned, const TrainingShape& shape);

}  // namespace medley
