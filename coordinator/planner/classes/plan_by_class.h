#pragma once
#include <cstdint>
#include <string>

#include "runtime/ir/plan/plan.h"

namespace medley {

struct PlanByClass {
  Plan plan;
  double step_seconds = 0;         // AlikeRoutePredictor
  double lower_bound_seconds = 0;  // no plan of this space is predicted to be faster; 0: not known
  int64_t priced_shapes = 0, predicted_plans = 0;
  std::string summary;  // how it was found and what it does, for people
};

}  // namespace medley
