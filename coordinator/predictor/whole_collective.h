#pragma once
#include <vector>

#include "coordinator/predictor/cost_model.h"
#include "runtime/ir/collective/collective_problem.h"

namespace medley {

// A sum over devices, in their order, that is looked at message by message: with the link of each pair of them, their hosts and sites. For
// tests. Links are those of the problem, which must outlive it.
inline CollectiveProblem WholeCollective(const PlanningProblem& problem, const std::vector<int>& devices,
                                         int at_once) {
  CollectiveProblem whole{
      .members = static_cast<int>(devices.size()), .groups_at_once = at_once, .places_of_members = {{}}};
  for (const int a : devices) {
    whole.host_of_member.push_back(problem.devices[a].host);
    whole.cards_of_member.push_back(problem.devices[a].network_cards);
    whole.places_of_members[0].push_back(problem.devices[a].site);
    for (const int b : devices) whole.links.push_back(a == b ? nullptr : &problem.links.Between(a, b));
  }
  return whole;
}

}  // namespace medley
