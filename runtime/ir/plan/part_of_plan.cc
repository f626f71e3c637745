#include "runtime/ir/plan/part_of_plan.h"

#include <map>

namespace medley {

Plan PartOfPlan(const Plan& plan, const std::vector<int>& routes) {
  Plan part{.schedule = plan.schedule};
  std::map<int, UnitId> number;
  for (const int r : routes) {
    Route& route = part.routes.emplace_back(plan.routes[r]);
    for (UnitId& u : route.units) {
      const auto [place, is_new] = number.try_emplace(u.value(), static_cast<int>(part.units.size()));
      if (is_new) part.units.push_back(plan.units[u]);
      u = place->second;
    }
  }
  return part;
}

}  // namespace medley
