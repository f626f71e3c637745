#pragma once
#include <vector>

#include "coordinator/planner/classes/route_shape.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/device_classes.h"

namespace medley {

// A time before which no plan of at most so many routes of such stages (stage_table.h) under 1F1B does the whole batch,
// at most `upper_seconds`. Sums of gradients and updates take nothing.
//
// `shapes`: of good plans; devices are priced by them first. None are needed, and those that matter make the bound
// sharp sooner. Pure and deterministic.
double LowerBoundSeconds(const PlanningProblem& problem, const std::vector<DeviceClass>& classes,
                         StageMemories& memories, const std::vector<RouteShape>& shapes, double upper_seconds,
                         int most_stages, int most_routes);

}  // namespace medley
