#pragma once
#include <cstdint>
#include <vector>

#include "coordinator/planner/search_tables.h"

namespace medley {

// A unit whose backwards have ended, in the order of a plan's units.
struct UnitEnd {
  int device = 0;
  int device_class = 0;
  int size = 0;  // of the micro-batches
  BlockRange blocks;
  UnitSaving saving;
  double last_backward_seconds = 0;
};

// When the step ends: reductions, norms, scalars and updates as the step programs order them. Exact if no two
// of the devices share a processor or slow each other down; else never too late.
double StepEndSeconds(const SearchTables& tables, const std::vector<UnitEnd>& units);

// What the reduction of the tied embedding takes at least. `holders`: devices, in any order. If others hold
// the block after it, it is a sum of its own and what that takes is known; else it may be one with theirs.
enum class TiedHolders : uint8_t { kTheirOwn, kOfFirstBlockToo };
double LeastTiedReductionSeconds(const SearchTables& tables, const std::vector<int>& holders,
                                 TiedHolders kind);

}  // namespace medley
