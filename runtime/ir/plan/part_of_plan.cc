#include "runtime/ir/plan/part_of_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace medley {

std::vector<UnitId> UnitsOf(const Plan& plan, const std::vector<int>& routes) {
  std::vector<UnitId> units;
  std::set<int> known;
  for (const int r : routes) {
    for (const UnitId u : plan.routes[r].units) {
      if (known.insert(u.value()).second) units.push_back(u);
    }
  }
  return units;
}

Plan PartOfPlan(const Plan& plan, const std::vector<int>& routes) {
  Plan part{.schedule = plan.schedule};
  std::map<int, UnitId> number;
  for (const UnitId u : UnitsOf(plan, routes)) {
    number[u.value()] = static_cast<int>(part.units.size());
    part.units.push_back(plan.units[u]);
  }
  for (const int r : routes) {
    Route& route = part.routes.emplace_back(plan.routes[r]);
    for (UnitId& u : route.units) u = number[u.value()];
  }
  return part;
}

std::vector<std::vector<int>> RoutesThatMeet(const Plan& plan) {
  std::vector<int> first(plan.routes.size());  // of those that it meets, or one that leads there
  std::iota(first.begin(), first.end(), 0);
  const auto first_of = [&](int route) {
    while (first[route] != route) route = first[route] = first[first[route]];
    return route;
  };
  std::vector<int> passed_by(plan.units.size(), -1);
  for (int r = 0; r < static_cast<int>(plan.routes.size()); ++r) {
    for (const UnitId u : plan.routes[r].units) {
      int& other = passed_by[u.value()];
      if (other < 0) other = r;
      const int one = first_of(other), another = first_of(r);
      first[std::max(one, another)] = std::min(one, another);
    }
  }
  std::vector<std::vector<int>> sets;
  std::vector<int> set_of(plan.routes.size(), -1);
  for (int r = 0; r < static_cast<int>(plan.routes.size()); ++r) {
    int& set = set_of[first_of(r)];
    if (set < 0) {
      set = static_cast<int>(sets.size());
      sets.emplace_back();
    }
    sets[set].push_back(r);
  }
  return sets;
}

}  // namespace medley
