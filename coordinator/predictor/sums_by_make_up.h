#pragma once
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/group_sums.h"

namespace medley {

// Sums over sets of devices, one for all that are made up alike: devices of a class could change places, so that what a sum takes is
// told by how many of each class are on each host. What one set asked (GroupSums) and what its samples told is there for all.
class SumsByMakeUp {
 public:
  // `class_of`: of each device (device_classes.h). Both must outlive it.
  SumsByMakeUp(const PlanningProblem& problem, const std::vector<int>& class_of)
      : problem_(problem), class_of_(class_of), places_(PlacesByHost(problem)), samples_(problem, class_of) {}

  // So many such sums share the cards of the hosts; `on_hosts`: Reductions::GroupOf.
  GroupSums& Over(std::vector<int> devices, int at_once, bool on_hosts);
  // What is known of sums over some of them.
  SumSamples& samples() { return samples_; }

 private:
  const PlanningProblem& problem_;
  const std::vector<int>& class_of_;
  const std::vector<int> places_;  // in which order devices are
  SumSamples samples_;
  // By how many are at once, whether on hosts, and of each host the classes of its members.
  std::map<std::tuple<int, bool, std::vector<std::vector<int>>>, std::unique_ptr<GroupSums>> sums_;
};

}  // namespace medley
