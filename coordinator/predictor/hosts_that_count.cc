#include "coordinator/predictor/hosts_that_count.h"

#include <algorithm>
#include <map>

namespace medley {

std::vector<int> HostsThatCount(const PlanningProblem& problem, const std::vector<int>& devices) {
  // Of each end two on different hosts at most: to any other host all of the end are as one of these.
  std::map<int, std::vector<int>> of_end;
  for (const int d : devices) {
    std::vector<int>& known = of_end[problem.links.EndOf(d)];
    if (known.empty() || (known.size() == 1 && HostOf(problem, known[0]) != HostOf(problem, d)))
      known.push_back(d);
  }
  const DeviceLinks& links = problem.links;
  const auto counts = [&](int host, const std::vector<int>& there) {
    if (problem.devices[there[0]].network_cards > 0) return true;
    if (problem.forced_all_reduce == CollectiveAlgorithm::kHierarchical) return true;
    std::map<int, int> first_of_end;
    for (const int d : there) first_of_end.try_emplace(links.EndOf(d), d);
    for (const auto& [end, others] : of_end) {
      const auto outside = std::find_if(others.begin(), others.end(),
                                        [&](int other) { return HostOf(problem, other) != host; });
      if (outside == others.end()) continue;
      for (const int b : there) {
        for (const auto& [end_of_a, a] : first_of_end) {
          if (a != b && links.Between(a, b) == links.Between(a, *outside)) return false;
        }
      }
    }
    return true;
  };
  std::map<int, bool> host_counts;
  for (const auto& [host, there] : DevicesByHost(problem, devices))
    host_counts[host] = there.size() > 1 && counts(host, there);
  std::vector<int> hosts;
  for (const int d : devices) {
    const int host = HostOf(problem, d);
    hosts.push_back(host_counts.at(host) ? host : -1 - d);
  }
  return hosts;
}

}  // namespace medley
