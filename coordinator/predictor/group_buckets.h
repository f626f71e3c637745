#pragma once
#include <cstdint>
#include <vector>

#include "coordinator/predictor/stage_groups.h"
#include "coordinator/predictor/sums_by_make_up.h"
#include "runtime/ir/model/model_config.h"
#include "runtime/ir/model/parameters.h"

namespace medley {

// Gradients that some groups of stages hold, which are summed at once: a slice of the step programs of all their ranks.
struct GroupBucket {
  std::vector<int> holders;  // groups
  int members = 0;           // units among these; of one, nothing is summed
  double all_weights = 0;    // of these units
  SegmentId first_segment = 0, end_segment = 0;
  int64_t elements = 0;
  double sum_seconds = 0;     // by itself; scattered, where the optimizer's state is shared
  double gather_seconds = 0;  // of its parameters, there
};

// All gradients of the model, in the order of their sums: runs of segments that the same groups hold (HolderRunsOf), cut into buckets
// as slices of step programs are. `shards_optimizer`: whether sums are scattered and gathered in parts by the weights of the units.
std::vector<GroupBucket> BucketsOf(const ModelConfig& model, bool shards_optimizer,
                                   const std::vector<StageGroup>& groups, SumsByMakeUp& sums);

}  // namespace medley
