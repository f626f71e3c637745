#pragma once
#include <vector>

#include "absl/status/status.h"
#include "agent/worker/align_job.h"
#include "runtime/device/device.h"
#include "runtime/engine/align/recording_ops.h"

namespace medley {

// Trains the whole model of `job` on `device` alone for job.steps steps; appends the mean loss of each to
// `losses`. `recorder`, if not null, is device.ops: it is told of the steps, and of where the parameters lie.
// Errors: what kept it from going on, with the step; `losses` holds those before.
absl::Status TrainForAlignment(Device& device, const AlignJob& job, RecordingOps* recorder,
                               std::vector<double>& losses);

}  // namespace medley
