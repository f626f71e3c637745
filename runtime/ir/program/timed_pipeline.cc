#include "runtime/ir/program/timed_pipeline.h"

#include <algorithm>

namespace medley {

TimedPipeline NominalPipeline(const Plan& plan) {
  TimedPipeline pipeline{.units = static_cast<int>(plan.units.size())};
  for (const Route& route : plan.routes)
    pipeline.routes.push_back({std::vector<TimedStage>(route.units.size()), route.micro_batches});
  for (int u = 0; u < pipeline.units; ++u) {
    for (const Visit& visit : VisitsOf(plan, u)) {
      const double work = visit.micro_batch_sequences * plan.units[u].chunks[visit.chunk].size();
      pipeline.routes[visit.route].stages[visit.stage] = {.unit = u,
                                                          .chunk = visit.chunk,
                                                          .forward_seconds = work,
                                                          .input_gradient_seconds = work,
                                                          .weight_gradient_seconds = work,
                                                          .kept = work,
                                                          .deferred = work};
    }
  }
  return pipeline;
}

std::vector<double> WorkSeconds(const TimedPipeline& pipeline) {
  std::vector<double> seconds(pipeline.units, 0);
  for (const TimedRoute& route : pipeline.routes) {
    for (const TimedStage& stage : route.stages)
      seconds[stage.unit] += stage.work_seconds() * route.micro_batches;
  }
  return seconds;
}

double LongestWorkSeconds(const TimedPipeline& pipeline) {
  const std::vector<double> seconds = WorkSeconds(pipeline);
  return seconds.empty() ? 0 : *std::max_element(seconds.begin(), seconds.end());
}

}  // namespace medley
