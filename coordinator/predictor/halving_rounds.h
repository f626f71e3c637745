#pragma once
#include <cstdint>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/collective/collective_time.h"

namespace medley {

// What halving and doubling take over many members, round by round, without looking at each message: in each round all leaves exchange as
// much with a leaf as far from them, so what a round takes is told by the slowest of few kinds of pairs: by their link, and by how
// many want the ways out at their ends at the same time. A round's messages follow the last one's chunk by chunk, if they do not want the same way. Messages that share a host's cards go side by side, and those
// that share the way of a rack or a site, or of a host whose cards are not known, one after another.
class HalvingRounds {
 public:
  // `devices`: of the problem, in the order in which they are numbered (LeavesOf). `boundaries`: of these (BoundariesOf), which count where cards
  // are not known. So many such sums share the cards. Keeps references to links of the problem, which must outlive it.
  HalvingRounds(const PlanningProblem& problem, const std::vector<int>& devices,
                const std::vector<Boundary>& boundaries, int at_once);

  // Of a vector of so many elements.
  double Seconds(int64_t elements, SumPart part) const;

 private:
  struct Pair {
    const LinkCost* link = nullptr;
    bool within_host = false;
    double slowdown = 1;  // of what occupies a way
    friend bool operator==(const Pair&, const Pair&) = default;
  };
  struct Round {
    double part = 1;  // of the vector, from each to each
    std::vector<Pair> pairs;
  };
  class Ways;
  class Clock;

  const double wire_bytes_per_element_;
  Round folding_;  // no pairs: nobody is folded
  std::vector<Round> halving_;
  double own_part_ = 0;  // of a member that is folded
};

}  // namespace medley
