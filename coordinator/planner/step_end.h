#pragma once
#include <vector>

#include "coordinator/planner/search_tables.h"

namespace medley {

// A unit whose backwards have ended, in the order of a plan's units.
struct UnitEnd {
  int device = 0;
  int device_class = 0;
  int size = 0;  // of the micro-batches
  BlockRange blocks;
  double last_backward_seconds = 0;
};

// When the step ends: reductions, norms, scalars and updates as the step programs order them. Exact if no two of the
// devices share a processor.
double StepEndSeconds(const SearchTables& tables, const std::vector<UnitEnd>& units);

// What the reduction of the tied embedding takes at least, in whatever order its `holders` (devices) are numbered.
double LeastTiedReductionSeconds(const SearchTables& tables, const std::vector<int>& holders);

}  // namespace medley
