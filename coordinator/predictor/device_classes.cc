#include "coordinator/predictor/device_classes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace medley {
namespace {

bool AreAlike(const PlanningProblem& problem, int a, int b) {
  const DeviceCost &one = problem.devices[a], &other = problem.devices[b];
  if (one.site != other.site || one.rack != other.rack || !AreOfOneMake(one, other)) return false;
  return problem.links.EndOf(a) == problem.links.EndOf(b) || problem.links.Interchangeable(a, b);
}

}  // namespace

bool AreOfOneMake(const DeviceCost& a, const DeviceCost& b) {
  return SameCostAnywhere(a, b) && a.shares == b.shares;
}

std::vector<DeviceClass> DeviceClassesOf(const PlanningProblem& problem) {
  std::vector<DeviceClass> classes;
  std::vector<std::map<int, size_t>> places;  // of each class's hosts, by the problem's number
  for (int d = 0; d < static_cast<int>(problem.devices.size()); ++d) {
    size_t number = 0;
    while (number < classes.size() && !AreAlike(problem, classes[number].first(), d)) ++number;
    if (number == classes.size()) {
      classes.emplace_back();
      places.emplace_back();
    }
    DeviceClass& of = classes[number];
    const auto [place, inserted] = places[number].try_emplace(HostOf(problem, d), of.hosts.size());
    if (inserted) of.hosts.emplace_back();
    of.hosts[place->second].push_back(d);
    ++of.devices;
    of.most_on_host = std::max(of.most_on_host, static_cast<int>(of.hosts[place->second].size()));
  }
  return classes;
}

int MostOnHost(const std::vector<DeviceClass>& classes) {
  int most = 1;
  for (const DeviceClass& of : classes) most = std::max(most, of.most_on_host);
  return most;
}

}  // namespace medley
