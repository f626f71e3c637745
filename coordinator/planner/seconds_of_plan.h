#pragma once
#include <optional>

#include "absl/status/statusor.h"
#include "coordinator/planner/planner.h"
#include "coordinator/predictor/alike_routes.h"

namespace medley {

// Of a step, to compare plans of one problem by, which must outlive it: of many devices that of AlikeRoutePredictor where it knows such plans,
// in milliseconds, else that of the whole simulation.
class SecondsOfPlans {
 public:
  explicit SecondsOfPlans(const PlanningProblem& problem) : problem_(problem) {
    if (problem.devices.size() > kMostSearchedDevices) alike_.emplace(problem);
  }
  // Errors as PredictStep's.
  absl::StatusOr<double> Of(const Plan& plan) {
    if (alike_) {
      const absl::StatusOr<double> alike = alike_->Predict(plan);
      if (alike.ok()) return alike;
    }
    return PredictStepSeconds(problem_, plan);
  }

 private:
  const PlanningProblem& problem_;
  std::optional<AlikeRoutePredictor> alike_;
};

}  // namespace medley
