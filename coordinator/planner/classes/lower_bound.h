#pragma once
#include <atomic>
#include <vector>

#include "coordinator/planner/classes/route_shape.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/device_classes.h"

namespace medley {

// What is known of good plans.
struct KnownPlans {
  std::vector<RouteShape> shapes;  // devices are priced by them first
  double step_seconds = 0;         // of the best one
  int routes = 0;                  // of that
  bool shards_optimizer = false;
};

// A time before which no plan of at most so many routes of such stages (stage_table.h) under 1F1B, whose replicas share the optimizer's state
// evenly if they do, does the whole batch, at most that of the best known plan. Sums of gradients take what SumFloor says, norms, updates and copies of layers that live
// in host memory nothing.
//
// What is known makes the bound sharp sooner, and need not be true. 0: `stop` is true, which may be null. Pure and
// deterministic.
double LowerBoundSeconds(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                         StageMemories& memories, const KnownPlans& known, bool layers_on_hosts,
                         int most_stages, int most_routes, const std::atomic<bool>* stop);

}  // namespace medley
