#include "runtime/ir/program/sum_order.h"

#include <algorithm>
#include <numeric>

namespace medley {
namespace {

// Of the time that an element's sum takes, for the last backward to go through it: where sums are fast their order
// matters little.
constexpr double kBackwardPart = 0.125;

}  // namespace

std::vector<int> OrderOfSums(const std::vector<SummedRun>& runs) {
  std::vector<int> order(runs.size());
  std::iota(order.begin(), order.end(), 0);
  int holders = 0;
  for (const SummedRun& run : runs) {
    for (const int holder : run.holders) holders = std::max(holders, holder + 1);
  }
  // What a holder's last backward goes through before a run.
  std::vector<double> behind(holders, 0), free(holders, 0), ready(runs.size(), 0);
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const int holder : runs[r].holders) {
      ready[r] = std::max(ready[r], kBackwardPart * behind[holder]);
      behind[holder] += static_cast<double>(runs[r].elements);
    }
  }
  const auto start_of = [&](int r) {
    double start = ready[r];
    if (!runs[r].is_summed) return start;
    for (const int holder : runs[r].holders) start = std::max(start, free[holder]);
    return start;
  };
  for (auto next = order.begin(); next != order.end(); ++next) {
    auto soonest = next;
    double least = start_of(*next);
    for (auto other = next + 1; other != order.end(); ++other) {
      const double start = start_of(*other);
      if (start < least) soonest = other, least = start;
    }
    // The others stay as they were given.
    std::rotate(next, soonest, soonest + 1);
    if (!runs[*next].is_summed) continue;
    for (const int holder : runs[*next].holders)
      free[holder] = least + static_cast<double>(runs[*next].elements);
  }
  return order;
}

}  // namespace medley
