#include "coordinator/predictor/communication_time.h"

#include <algorithm>

namespace medley {

double TransferSeconds(const LinkCost& link, double bytes) {
  return link.latency_seconds + bytes / link.bytes_per_second;
}

double AllReduceSeconds(const PlanningProblem& problem, const std::vector<int>& ring, double bytes) {
  const int n = static_cast<int>(ring.size());
  if (n < 2) return 0;
  double round_seconds = 0;
  for (int i = 0; i < n; ++i) {
    const LinkCost& link = problem.links[ring[i]][ring[(i + 1) % n]];
    round_seconds = std::max(round_seconds, link.latency_seconds + bytes / n / link.all_reduce_bytes_per_second);
  }
  return 2 * (n - 1) * round_seconds;
}

double ReduceScalarsSeconds(const PlanningProblem& problem, const std::vector<int>& devices) {
  const int n = static_cast<int>(devices.size());
  double latency_seconds = 0;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) {
      latency_seconds = std::max(latency_seconds, problem.links[devices[j]][devices[i]].latency_seconds);
    }
  }
  return 2 * (n - 1) * latency_seconds;
}

}  // namespace medley
