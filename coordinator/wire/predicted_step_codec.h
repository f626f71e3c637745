#pragma once
#include <cstdint>

#include "coordinator/problem/planned_job.h"
#include "proto/medley/v1/plan.pb.h"

namespace medley {

// Whether a report has the predicted step, too, which is large.
enum class StepInReport : uint8_t { kNo, kYes };

// The lanes of a planned job (coordinator/problem/predicted_lanes.h); `shape` is what it was planned for.
v1::PredictedStep EncodePredictedStep(const PlannedJob& planned, const TrainingShape& shape);

}  // namespace medley
