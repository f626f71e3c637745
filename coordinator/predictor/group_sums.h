#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/reductions.h"

namespace medley {

// What sums of gradients take over one set of devices that may be large.
class GroupSums {
 public:
  // `devices`: of the problem, which must outlive it. Beyond `most_exact` members, times are extrapolated from sets of
  // half as many and as many, taken evenly out of them; or, where hosts have several and that is faster, they are those
  // of a hierarchy: rings within hosts, and what each of a host's devices then has summed with one of each other host,
  // as many at a time as there are cards. All wait for the host with the fewest: all of the vector leaves and enters it.
  GroupSums(const PlanningProblem& problem, std::vector<int> devices, int most_exact);

  // To sum a vector of so many elements.
  double Seconds(int64_t elements);
  int members() const { return static_cast<int>(devices_.size()); }

 private:
  struct Sample {
    PlanningProblem problem;
    std::unique_ptr<Reductions> reductions;
    std::vector<int> all;
  };
  static std::unique_ptr<Sample> SampleOf(const PlanningProblem& problem, const std::vector<int>& devices,
                                          int most);
  double At(int64_t elements);
  double Extrapolated(int64_t elements) const;
  double Hierarchical(int64_t elements);
  void FindHosts(const PlanningProblem& problem, int most_exact);

  std::vector<int> devices_;
  std::unique_ptr<Sample> whole_, half_;        // of most_exact and half of it; or `whole_` is all
  std::vector<std::unique_ptr<Sample>> hosts_;  // one of each make-up; none: no hierarchy
  double members_of_host_ = 1;                  // of the largest host, whose devices have the smallest parts
  double ways_out_ = 1;                         // of the host with the fewest
  std::unique_ptr<GroupSums> across_;           // of one device of each host
  std::map<int64_t, double> seconds_;
};

}  // namespace medley
