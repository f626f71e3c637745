#pragma once
#include <cstdint>
#include <vector>

#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// How gradient slices of one size are summed over some ranks. Decided once for all of them, from the measured
// links.
struct ReductionChoice {
  std::vector<Rank> holders;  // ascending; members of the group are places in it
  int64_t elements = 0;       // of the slice
  CollectiveChoice choice;
  friend bool operator==(const ReductionChoice&, const ReductionChoice&) = default;
};

}  // namespace medley
