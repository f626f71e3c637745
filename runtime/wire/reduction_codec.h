#pragma once
#include <vector>

#include "absl/status/statusor.h"
#include "proto/medley/v1/agent.pb.h"
#include "runtime/ir/job/reduction_choice.h"

namespace medley {

v1::Reduction EncodeReduction(const ReductionChoice& reduction);

// Those of `train`, which must hold to its rules (runtime/wire/validate.h). InvalidArgument
// "reductions[I].FIELD: value and what is allowed": holders that are not two or more ranks of the plan,
// ascending; an order that is no permutation of their places; levels of another algorithm than the
// hierarchical one, or that do not sum up; shares that are not one for each holder, or all 0; two entries for
// the same holders and size.
absl::StatusOr<std::vector<ReductionChoice>> DecodeReductions(const v1::TrainTask& train);

}  // namespace medley
