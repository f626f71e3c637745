#pragma once
#include <cstdint>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/collective/collective_problem.h"
#include "runtime/ir/collective/collective_time.h"

namespace medley {

// What halving and doubling take over many members, round by round, without looking at each message: in each round all leaves exchange as
// much with a leaf as far from them, so what a round takes is told by the slowest of few kinds of pairs: by their link, and by how
// many messages want the ways out and in at their ends, which share these evenly. A round's messages follow the last one's chunk by chunk, if
// they do not want the same way.
//
// One message after another takes a card at both ends as MessageClock has it, so that where pairs lie across hosts with too few cards each waits
// for the one before, along all hosts: up to fourteen times as long (64 hosts of four with one card each, and one of one). Cards send what there is.
class HalvingRounds {
 public:
  // `devices`: of the problem, at least one, in the order in which they are numbered (LeavesOf). `boundaries`: of these (BoundariesOf), which count
  // where cards are not known. So many such sums share the cards. Keeps references to links of the problem, which must outlive it.
  HalvingRounds(const PlanningProblem& problem, const std::vector<int>& devices,
                const std::vector<Boundary>& boundaries, int at_once);

  // Of a vector of so many elements.
  double Seconds(int64_t elements, SumPart part) const;

 private:
  struct Pair {
    const LinkCost* link = nullptr;
    bool together = false;  // what leads further is not wanted
    double slowdown = 1;    // of what occupies a way
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
