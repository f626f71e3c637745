#pragma once
#include <vector>

#include "coordinator/predictor/shared_ways.h"

namespace medley {

// Sums of gradients of which each holder does one at a time, in their order, and which share the ways of hosts, racks and sites (SharedWays).
struct SumInTurn {
  std::vector<int> holders;
  double ready_seconds = 0;  // it does not begin before
  double work_seconds = 0;   // by itself
  std::vector<WayPart> way_parts;
  double end_seconds = 0;  // found
};

// Finds when they end: a sum begins when it is ready and all holders have done those before it. Pure; quadratic in how many run
// at once, linear in how many there are.
void RunInTurn(int holders, int ways, std::vector<SumInTurn>& sums);

}  // namespace medley
