#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cluster/cluster_view.h"
#include "coordinator/orchestrator/link_table.h"
#include "proto/medley/v1/coordinator.pb.h"

namespace medley {

// How each algorithm would sum a vector of `bytes` bytes of f32 over `devices`, and which a job on these
// devices would take: by the same code that plans with it (coordinator/predictor/reductions.h). Pure.
// InvalidArgument: fewer than two devices, one of them twice, or less than four bytes. FailedPrecondition: a
// link between two of them was not measured; names it.
absl::StatusOr<v1::AllReduceExplanation> ExplainAllReduce(const std::vector<ClusterDeviceLocation>& devices,
                                                          uint64_t bytes, const LinkTable& links);

}  // namespace medley
