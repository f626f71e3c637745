#pragma once
#include "runtime/ir/collective/collective_schedule.h"

namespace medley {

// How a group sums its vectors; the same value at every member. ChooseAllReduce makes it, AllReduceSchedule
// reads it.
struct CollectiveChoice {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  GroupShape shape;              // levels of kHierarchical alone
  double predicted_seconds = 0;  // for people and for comparing; does not change what is done
  friend bool operator==(const CollectiveChoice&, const CollectiveChoice&) = default;
};

}  // namespace medley
