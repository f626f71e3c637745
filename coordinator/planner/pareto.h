#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/planner/planner.h"

// What the plans of a problem offer of time against price.
namespace medley {

struct ParetoPoint {
  ChosenPlan chosen;
  double price_per_hour = 0;  // of all its devices together

  double CostOfStep() const { return price_per_hour * chosen.step_seconds / 3600; }
};

struct ParetoList {
  // From the fastest to the cheapest: none is both as fast and as cheap as another.
  std::vector<ParetoPoint> points;
  // No plan that is not in it is both faster than one of them and as cheap: every search was exhausted, and no price
  // between two of them was passed over. Of plans with a synthesised order, or that save memory, nothing is known.
  bool complete = false;
  int64_t simulated_plans = 0;  // in all searches, but for those that found nothing
};

// Up to so many devices every price is looked at; of more, kMostBudgets prices in even ratios.
constexpr size_t kMostDevicesOfAllPrices = 8;
constexpr int kMostBudgets = 14;

// Plans again and again (ChoosePlan), each time for less than the last plan costs an hour (the epsilon-constraint method),
// until nothing fits, or nothing that does is found within `limits`, or a plan takes longer than `slowest_step_seconds`, which is then left out unless it is the first.
// `limits` are those of each planning. Once limits.stop is set: what was found so far, not complete. Deterministic. Pure.
// Errors: ChoosePlan's, of the problem itself.
absl::StatusOr<ParetoList> ListTimeAgainstPrice(
    const PlanningProblem& problem, const SearchLimits& limits = {},
    double slowest_step_seconds = std::numeric_limits<double>::infinity());

}  // namespace medley
