#include "runtime/ir/collective/all_reduce_schedule.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/collective/halving_doubling_schedule.h"
#include "runtime/ir/collective/hierarchical_schedule.h"
#include "runtime/ir/collective/ring_schedule.h"
#include "runtime/ir/collective/tree_schedule.h"

namespace medley {

absl::StatusOr<CollectiveSchedule> AllReduceSchedule(int members, int64_t elements,
                                                     const CollectiveChoice& choice,
                                                     std::optional<int> only) {
  if (elements < 0) {
    return absl::InvalidArgumentError(absl::StrCat("elements is ", elements, "; must not be negative"));
  }
  RETURN_IF_ERROR(CheckGroupShape(choice.shape, members));
  if (only.has_value() && (*only < 0 || *only >= members)) {
    return absl::InvalidArgumentError(absl::StrCat("only is ", *only, ", not in [0, ", members, ")"));
  }
  switch (choice.algorithm) {
    case CollectiveAlgorithm::kRing:
      return RingAllReduceSchedule(members, elements, choice.shape, only);
    case CollectiveAlgorithm::kHalvingDoubling:
      return HalvingDoublingSchedule(members, elements, choice.shape, only);
    case CollectiveAlgorithm::kTree:
      return TreeAllReduceSchedule(members, elements, choice.shape, only);
    case CollectiveAlgorithm::kHierarchical:
      return HierarchicalSchedule(members, elements, choice.shape, only);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("algorithm is ", static_cast<int>(choice.algorithm), ", which is none of ours"));
}

}  // namespace medley
