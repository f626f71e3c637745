#include "coordinator/planner/techniques/unit_order.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>

namespace medley {

Plan WithUnitsByHost(const PlanningProblem& problem, Plan plan, const std::vector<int>& first_devices) {
  std::unordered_map<int, std::pair<int, int>> place_of_host;  // the least end and device of these
  for (const int d : first_devices) {
    const std::pair own(problem.links.EndOf(d), d);
    std::pair<int, int>& place = place_of_host.try_emplace(HostOf(problem, d), own).first->second;
    place = std::min(place, own);
  }
  if (place_of_host.size() == first_devices.size()) return plan;
  const auto place = [&](int unit) {
    const int d = first_devices[unit];
    return std::pair(place_of_host.at(HostOf(problem, d)), d);
  };
  std::vector<int> order(first_devices.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
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

Plan WithUnitsByHost(const PlanningProblem& problem, Plan plan) {
  const std::unordered_map<std::string, int> device_by_name = DevicesByName(problem);
  std::vector<int> first_devices;
  for (const Unit& unit : plan.units) first_devices.push_back(device_by_name.at(unit.devices.front()));
  return WithUnitsByHost(problem, std::move(plan), first_devices);
}

}  // namespace medley
