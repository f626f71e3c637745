#pragma once
#include "absl/status/statusor.h"
#include "proto/medley/v1/job.pb.h"
#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

v1::AllReduceAlgorithm EncodeAllReduceAlgorithm(CollectiveAlgorithm algorithm);
// InvalidArgument: UNSPECIFIED, or no algorithm has this number.
absl::StatusOr<CollectiveAlgorithm> DecodeAllReduceAlgorithm(v1::AllReduceAlgorithm algorithm);

}  // namespace medley
