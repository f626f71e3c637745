#include "runtime/wire/algorithm_codec.h"

#include "absl/strings/str_cat.h"

namespace medley {

v1::AllReduceAlgorithm EncodeAllReduceAlgorithm(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
      return v1::ALL_REDUCE_ALGORITHM_RING;
    case CollectiveAlgorithm::kHalvingDoubling:
      return v1::ALL_REDUCE_ALGORITHM_HALVING_DOUBLING;
    case CollectiveAlgorithm::kTree:
      return v1::ALL_REDUCE_ALGORITHM_TREE;
    case CollectiveAlgorithm::kHierarchical:
      return v1::ALL_REDUCE_ALGORITHM_HIERARCHICAL;
  }
  return v1::ALL_REDUCE_ALGORITHM_UNSPECIFIED;
}

absl::StatusOr<CollectiveAlgorithm> DecodeAllReduceAlgorithm(v1::AllReduceAlgorithm algorithm) {
  switch (algorithm) {
    case v1::ALL_REDUCE_ALGORITHM_RING:
      return CollectiveAlgorithm::kRing;
    case v1::ALL_REDUCE_ALGORITHM_HALVING_DOUBLING:
      return CollectiveAlgorithm::kHalvingDoubling;
    case v1::ALL_REDUCE_ALGORITHM_TREE:
      return CollectiveAlgorithm::kTree;
    case v1::ALL_REDUCE_ALGORITHM_HIERARCHICAL:
      return CollectiveAlgorithm::kHierarchical;
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("algorithm: ", static_cast<int>(algorithm), " is none of its values"));
}

}  // namespace medley
