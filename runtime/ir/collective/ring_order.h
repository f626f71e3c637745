#pragma once
#include <vector>

#include "runtime/ir/collective/collective_problem.h"

namespace medley {

// The members in a ring that avoids slow links: nearest neighbour first, then pairs of edges are exchanged as
// long as the slower of them gets faster. Deterministic; starts with member 0. Exchanges are left out beyond
// kMostExchanged members.
std::vector<int> RingOrder(const CollectiveProblem& problem);

inline constexpr int kMostExchanged = 256;

}  // namespace medley
