#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// Routes of a plan by themselves, on their devices as these are while all of the plan runs: those of a host slow each other down as if all
// that the plan uses computed at once, and messages share ways as if those of other routes between the same two blocks went at the
// same moments, which they do where routes are alike. Of a unit of several chunks all messages are as those that share their way with
// the most others.
class RoutesAlone {
 public:
  // `ways`: of the problem. `devices_of_unit`: of each unit of the plan, in the order of its ranks. Keeps references to all.
  RoutesAlone(const PlanningProblem& problem, const SharedWays& ways, const Plan& plan,
              const std::vector<std::vector<int>>& devices_of_unit);

  // Of the devices of some routes, all that share units with one of them, in the order of the part of the plan that they are
  // (PartOfPlan).
  PlanningProblem ProblemOf(const std::vector<int>& routes);
  // Of all devices, those of some routes as they are so.
  PlanningProblem ProblemWith(const std::vector<int>& routes);
  // Equal for routes that have equally many messages at once; empty where nothing is shared.
  std::string DescribeAtOnce(const std::vector<int>& routes);

 private:
  // How many pairs of units that follow each other have an end at a place and the other elsewhere, by the block between them and
  // whether the end there comes first.
  class Crossings {
   public:
    Crossings(const SharedWays& ways, int blocks);
    int& Of(WayLevel level, int place, BlockId boundary, bool behind) {
      return counts_[ways_.WayOf(level, place, behind) * blocks_ + boundary.value()];
    }

   private:
    const SharedWays& ways_;
    size_t blocks_ = 0;
    std::vector<int> counts_;
  };
  // Adds `times` to those of these routes.
  void Count(const std::vector<int>& routes, int times, Crossings& crossings) const;
  std::vector<int> DevicesOf(const std::vector<int>& routes) const;
  // Of each of their devices.
  std::vector<MessagesAtOnce> AtOnceOf(const std::vector<int>& routes);
  void Slow(DeviceCost& cost) const;

  const PlanningProblem& problem_;
  const SharedWays& ways_;
  const Plan& plan_;
  const std::vector<std::vector<int>>& devices_of_unit_;
  std::map<int, int> used_on_host_;  // devices
  Crossings of_all_, of_these_;
};

}  // namespace medley
