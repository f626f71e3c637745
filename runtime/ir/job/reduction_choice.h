#pragma once
#include <cstdint>
#include <vector>

#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// How vectors of one size are summed over some ranks: slices of gradients over their holders, what the ranks of
// a unit sum within their passes. Decided once for all of them, from the measured links.
struct ReductionChoice {
  std::vector<Rank> holders;  // ascending; members of the group are places in it
  int64_t elements = 0;       // of the vector
  CollectiveChoice choice;
  friend bool operator==(const ReductionChoice&, const ReductionChoice&) = default;
};

// That of `reductions` for such a sum; without one an even ring.
inline CollectiveChoice ChoiceFor(const std::vector<ReductionChoice>& reductions,
                                  const std::vector<Rank>& holders, int64_t elements) {
  for (const ReductionChoice& reduction : reductions) {
    if (reduction.elements == elements && reduction.holders == holders) return reduction.choice;
  }
  return {};
}

}  // namespace medley
