#include "coordinator/planner/techniques/unit_order.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace medley {

Plan WithUnitsByHost(const PlanningProblem& problem, Plan plan) {
  if (!plan.shards_optimizer) return plan;
  const std::vector<int> places = PlacesByHost(problem);
  const std::unordered_map<std::string, int> device_by_name = DevicesByName(problem);
  std::vector<int> place_of_unit;
  for (const Unit& unit : plan.units)
    place_of_unit.push_back(places[device_by_name.at(unit.devices.front())]);
  std::vector<int> order(plan.units.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return place_of_unit[a] < place_of_unit[b]; });
  std::vector<UnitId> number_of(order.size());
  std::vector<Unit> units;
  units.reserve(order.size());
  for (const int u : order) {
    number_of[u] = static_cast<int>(units.size());
    units.push_back(std::move(plan.units[u]));
  }
  plan.units = std::move(units);
  for (Route& route : plan.routes) {
    for (UnitId& u : route.units) u = number_of[u.value()];
  }
  return plan;
}

}  // namespace medley
