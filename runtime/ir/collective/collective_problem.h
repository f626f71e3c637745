#pragma once
#include <cstdint>
#include <vector>

#include "runtime/ir/link/link_model.h"

namespace medley {

// A group, the vector that it sums, and what lies between its members.
struct CollectiveProblem {
  int members = 1;
  int64_t elements = 0;
  double wire_bytes_per_element = 4;  // 2: bf16
  // By member * members + other: not owned, must outlive the problem. Null, or shorter: takes no time.
  std::vector<const LinkCost*> links;
  // By member; equal numbers share a host and its way to other hosts. Empty: each on a host of its own.
  std::vector<int> host_of_member;
  // By member: how many network cards its host has, each of which sends a message and takes one in at a time, at the
  // full speed of a link; 0: not known. Empty: of none.
  std::vector<int> cards_of_member;
  // How many groups like this one sum at once, with members on the same hosts: each has such a part of their cards, and of what
  // racks and sites share.
  int groups_at_once = 1;
  // By level beyond hosts (racks, sites), and by member: equal numbers are at one place and share its way to others of the level.
  std::vector<std::vector<int>> places_of_members;

  const LinkCost* Link(int from, int to) const {
    const size_t index = static_cast<size_t>(from) * members + to;
    return index < links.size() ? links[index] : nullptr;
  }
  // The seconds of an exchange between two members, of `bytes` each way.
  double ExchangeSeconds(int from, int to, double bytes) const {
    const LinkCost* const link = Link(from, to);
    return link == nullptr ? 0 : link->exchange.Seconds(bytes);
  }
};

// A way of cutting the group into parts that share what leads out of them. By member: the number of its part,
// 0 .. k - 1 in the order of their first members. Parts of a later boundary are unions of those of the one
// before.
using Boundary = std::vector<int>;

// The boundaries of a problem, innermost first, without those that separate all members or none: the hosts,
// if several and some have several members, and then what shows in the links: members are joined along the
// fastest links first, and where the next join is at least twice as slow as the last, what is joined so far
// is inside a boundary.
std::vector<Boundary> BoundariesOf(const CollectiveProblem& problem);

}  // namespace medley
