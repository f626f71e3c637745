#pragma once
#include <cstdint>
#include <string>

#include "runtime/ir/plan/plan.h"

namespace medley {

// Pipelines of so many stages at most are searched.
inline constexpr int kMostStagesByClasses = 48;

struct PlanByClass {
  Plan plan;
  double step_seconds = 0;  // AlikeRoutePredictor
  double named_step_seconds =
      0;  // of the fastest plan under ScheduleByClasses; `plan` may have orders of its own
  double lower_bound_seconds =
      0;  // no plan under that whose replicas share evenly is predicted to be faster; 0: not known
  double busy_seconds = 0;  // none in any order is, for its devices compute so long; 0: not known
  int64_t priced_shapes = 0, predicted_plans = 0;
  std::string summary;  // how it was found and what it does, for people
  std::string
      orders;  // why passes are in the order in which they are, for people; empty: no other was to be looked for
};

}  // namespace medley
