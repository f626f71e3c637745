#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/shared_ways.h"
#include "coordinator/predictor/stage_groups.h"

namespace medley {

// What sums of groups of stages take from each other where they share ways (SharedWays). Of hosts, racks or sites with devices of the
// same groups and ways as fast one tells of all: whatever their groups sum takes as much of each. A place with devices of one group
// alone tells nothing, for one group's sums follow each other.
class AlikePlaces {
 public:
  AlikePlaces(const PlanningProblem& problem, const SharedWays& ways, const std::vector<StageGroup>& groups);

  // As many as there are ways in what PartsOfSum says.
  int count() const { return static_cast<int>(places_.size()); }
  // What a sum of `bytes` over all members of these groups takes that is over in `seconds` by itself. A part of a sum takes as much of
  // the ways, for a shorter time.
  std::vector<WayPart> PartsOfSum(const std::vector<int>& holders, double bytes, double seconds) const;

 private:
  struct Places {
    WayLevel level = WayLevel::kHost;
    double bytes_per_second = 0;  // of each way of one; 0: it is not known to share any
    std::vector<int> groups;      // of stages, that have devices at each
    int count = 0;
  };

  size_t groups_ = 0;
  std::vector<Places> places_;
};

}  // namespace medley
