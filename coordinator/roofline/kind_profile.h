#pragma once
#include <string>
#include <vector>

#include "coordinator/roofline/error_bar.h"
#include "coordinator/roofline/pass_seconds.h"
#include "runtime/ir/cluster/device_profile.h"

namespace medley {

// What a profile of a kind would say of blocks of `shape`, had it been measured: one device, 16-bit operands, fused
// attention, nothing made again, and copies to host memory where the data sheet says how fast their bus is. `shape_key`: what profiles of that shape are found under (DeviceProfile::shape).
// The provenance says that nothing was measured, with which coefficients, and how far such times were off. Sizes: positive.
DeviceProfile KindProfile(const CalibratedDevice& device, const std::string& software, PredictionBasis basis,
                          const TrainingShape& shape, const std::string& shape_key,
                          const std::vector<int>& micro_batch_sizes);

}  // namespace medley
