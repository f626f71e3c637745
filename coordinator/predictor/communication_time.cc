#include "coordinator/predictor/communication_time.h"

#include <algorithm>

namespace medley {

double TransferSeconds(const LinkCost& link, double bytes) { return link.transfer.Seconds(bytes); }

double ReduceScalarsSeconds(const PlanningProblem& problem, const std::vector<int>& devices) {
  const int n = static_cast<int>(devices.size());
  double latency_seconds = 0;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) {
      latency_seconds = std::max(latency_seconds, problem.links[devices[j]][devices[i]].transfer.LatencySeconds());
    }
  }
  return 2 * (n - 1) * latency_seconds;
}

}  // namespace medley
