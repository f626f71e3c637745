#include "coordinator/predictor/communication_time.h"

#include <algorithm>
#include <limits>

#include "runtime/ir/collective/scalar_tree.h"
#include "runtime/ir/program/program.h"

namespace medley {

double TransferSeconds(const LinkCost& link, double bytes) { return link.transfer.Seconds(bytes); }

double ReduceScalarsSeconds(const PlanningProblem& problem, const std::vector<int>& devices) {
  const double bytes = sizeof(double) * static_cast<double>(ScalarCount(problem.shape.model));
  if (devices.size() < 2) return 0;
  const ScalarTree tree(static_cast<int>(devices.size()));
  // Of what `place` sends to the others of its group, or gets from them, at once.
  const auto burst_seconds = [&](int place, const std::vector<int>& group) {
    double least_latency_seconds = std::numeric_limits<double>::infinity(), moving_seconds = 0,
           longest_seconds = 0;
    for (const int other : group) {
      if (other == place) continue;
      const LinkCost& link = problem.links.Between(devices[place], devices[other]);
      const double alone_seconds = TransferSeconds(link, bytes),
                   latency_seconds = link.transfer.LatencySeconds();
      longest_seconds = std::max(longest_seconds, alone_seconds);
      least_latency_seconds = std::min(least_latency_seconds, latency_seconds);
      moving_seconds += alone_seconds - latency_seconds;
    }
    return moving_seconds > 0 ? std::max(longest_seconds, least_latency_seconds + moving_seconds)
                              : longest_seconds;
  };
  std::vector<double> ready_seconds(devices.size());  // by place: when it has what it gives next
  const auto for_each_first = [&](int level, const auto& visit) {
    for (int place = 0; place < static_cast<int>(devices.size()); ++place) {
      if (tree.TakesPart(level + 1, place)) visit(place, tree.GroupOf(level, place));
    }
  };
  const auto latest_seconds = [&](const std::vector<int>& group) {
    double latest = 0;
    for (const int place : group) latest = std::max(latest, ready_seconds[place]);
    return latest;
  };
  for (int level = 0; level < tree.levels(); ++level) {
    for_each_first(level, [&](int first, const std::vector<int>& group) {
      ready_seconds[first] = latest_seconds(group) + burst_seconds(first, group);
    });
  }
  const std::vector<int> exchanging = tree.GroupOf(tree.levels(), 0);
  double exchange_seconds = 0;
  for (const int place : exchanging)
    exchange_seconds = std::max(exchange_seconds, burst_seconds(place, exchanging));
  const double summed_seconds = latest_seconds(exchanging) + exchange_seconds;
  for (const int place : exchanging) ready_seconds[place] = summed_seconds;
  for (int level = tree.levels() - 1; level >= 0; --level) {
    for_each_first(level, [&](int first, const std::vector<int>& group) {
      const double there_seconds = ready_seconds[first] + burst_seconds(first, group);
      for (const int place : group) ready_seconds[place] = there_seconds;
    });
  }
  return *std::max_element(ready_seconds.begin(), ready_seconds.end());
}

}  // namespace medley
