#pragma once
#include <vector>

#include "runtime/ir/cluster/cluster.h"
#include "runtime/ir/job/job_constraints.h"
#include "runtime/ir/job/training_spec.h"

// A job on devices of two kinds, for tests: some that are alike, and one that is not.
namespace medley {

// 8 sequences a step, two layers, f32.
TrainingSpec SmallJob();

// `alike` nodes "a0", "a1", ... of kind "alike" and one node "z" of kind "other", each with a device "cpu0".
Cluster AlikeNodes(int alike);

// A plan for them that gives `micro_batches` of one sequence to each: data parallel, all blocks on every device.
// The last one is the other node's, of which it may be 0: then it has no part.
JobConstraints Replicas(const std::vector<int>& micro_batches);

}  // namespace medley
