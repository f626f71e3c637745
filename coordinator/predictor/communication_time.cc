#include "coordinator/predictor/communication_time.h"

#include <algorithm>
#include <limits>

#include "runtime/ir/program/program.h"

namespace medley {

double TransferSeconds(const LinkCost& link, double bytes) { return link.transfer.Seconds(bytes); }

double ReduceScalarsSeconds(const PlanningProblem& problem, const std::vector<int>& devices) {
  const double bytes = sizeof(double) * static_cast<double>(ScalarCount(problem.shape.model));
  double seconds = 0;
  for (const int a : devices) {
    double least_latency_seconds = std::numeric_limits<double>::infinity(), sending_seconds = 0;
    for (const int b : devices) {
      if (a == b) continue;
      const LinkCost& link = problem.links.Between(a, b);
      const double alone_seconds = TransferSeconds(link, bytes),
                   latency_seconds = link.transfer.LatencySeconds();
      seconds = std::max(seconds, alone_seconds);
      least_latency_seconds = std::min(least_latency_seconds, latency_seconds);
      sending_seconds += alone_seconds - latency_seconds;
    }
    if (sending_seconds > 0) seconds = std::max(seconds, least_latency_seconds + sending_seconds);
  }
  return seconds;
}

}  // namespace medley
