#pragma once
#include <cstdint>
#include <vector>

namespace medley {

// Gradients that the same holders sum: consecutive segments, which become buckets (CutIntoBuckets).
struct SummedRun {
  int64_t elements = 0;
  // Numbers of those that hold it, such as units; those that hold exactly the same in all runs may be one.
  std::vector<int> holders;
  bool is_summed = true;  // there are others to sum with
};

// In which order a step sums runs of segments, which are given from the last to the first as backward goes through
// them: places in `runs`. It is one for all ranks, which sum what they hold of it, so that none waits in a circle.
//
// Where replicas are cut alike it is the order given. Where they are cut at different layers, neighbouring runs have
// holders in common, and in that order each would wait for the one before through the whole model. So the next is
// always a run whose holders can begin it soonest: disjoint ones are summed at once (list scheduling, Graham 1969).
// Sums are taken to last as long as they are large, and gradients to be ready in a small part of that time for each
// element behind them. Pure and deterministic.
std::vector<int> OrderOfSums(const std::vector<SummedRun>& runs);

}  // namespace medley
