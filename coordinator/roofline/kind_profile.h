#pragma once
#include <string>
#include <vector>

#include "coordinator/roofline/pass_seconds.h"
#include "runtime/base/dtype.h"
#include "runtime/ir/cluster/device_profile.h"

namespace medley {

// What a profile of a kind would say of blocks of `shape` in a job of `precision`, had it been measured: one device, fused
// attention, nothing made again, and copies to host memory where the data sheet says how fast their bus is. Where such devices compute
// the job in f32, the data sheet must say how fast; coefficients are of 16-bit operands even so, and the error that of kOtherKinds.
// `shape_key`: what profiles of that shape are found under (DeviceProfile::shape).
// The provenance says that nothing was measured and with which coefficients. Sizes: positive.
DeviceProfile KindProfile(CalibratedDevice device, const std::string& software, PredictionBasis basis,
                          const TrainingShape& shape, Precision precision, const std::string& shape_key,
                          const std::vector<int>& micro_batch_sizes);

}  // namespace medley
