#pragma once
#include "absl/status/statusor.h"
#include "runtime/device/device.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/recompute.h"

namespace medley {

// Which part of their forward's time some layers take to make their activations again. Both take turns and are compared alone, so that
// how fast the device happens to be does not matter; a turn lasts `turn_seconds`, or one repetition. 0: there is no memory to find out.
absl::StatusOr<double> RecomputedPart(Device& device, const TrainingShape& shape, Precision precision,
                                      BlockRange layers, int micro_batch, Recompute recompute,
                                      double turn_seconds);

}  // namespace medley
