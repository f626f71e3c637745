#pragma once
#include "absl/status/statusor.h"
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/alike_routes.h"

namespace medley {

// Of a step, to compare plans by: of many devices that of AlikeRoutePredictor where it knows such plans, in milliseconds, else that of the
// whole simulation. Errors as PredictStep's.
inline absl::StatusOr<double> SecondsOfPlan(const PlanningProblem& problem, const Plan& plan) {
  if (problem.devices.size() > kMostSearchedDevices) {
    const absl::StatusOr<AlikePrediction> alike = AlikeRoutePredictor(problem).Predict(plan);
    if (alike.ok()) return alike->step_seconds;
  }
  return PredictStepSeconds(problem, plan);
}

}  // namespace medley
