#pragma once
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "runtime/ir/collective/collective_choice.h"
#include "runtime/ir/collective/collective_problem.h"

namespace medley {

// The fastest by AllReduceSeconds among: rings in an order that keeps to fast links, with even slices and
// with slices that spare the slowest members; halving and doubling; a tree; and hierarchies along the hosts
// and the boundaries that the links show (BoundariesOf; without any, or where these leave parts of quite other sizes beside each
// other, all members in one ring). With `forced`,
// the fastest of that algorithm. Among equals the first in that order, and the same problem gives the same
// choice everywhere. For 8 members some tens of microseconds without boundaries, up to a millisecond with
// several: worth keeping.
CollectiveChoice ChooseAllReduce(const CollectiveProblem& problem,
                                 std::optional<CollectiveAlgorithm> forced = {});

// A ring around which members scatter gradients, and then gather parameters, in f32, in parts by `shares` (by member; empty: even):
// the faster of one that keeps to fast links and one that also keeps the parts of boundaries together. It takes what both take; its shape
// has no shares, which are the vector's own.
CollectiveChoice ChooseSharedRing(const CollectiveProblem& problem, const std::vector<double>& shares);

// Members in the order of `ring` but for what keeps the parts of each boundary together, and how many parts of the boundary before
// (or members) each part has.
GroupShape ShapeAlong(absl::Span<const Boundary> boundaries, const std::vector<int>& ring);

}  // namespace medley
