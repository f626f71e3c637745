#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/predictor/cost_model.h"
#include "coordinator/predictor/step_simulator.h"
#include "runtime/ir/plan/plan.h"

namespace medley {

// Of each unit of some routes, of each of its ranges.
using LastBackwardsOfUnits = std::vector<std::vector<LastBackward>>;

// When the units of a set of routes (RoutesThatMeet) have done their last backwards, were there no others: what a simulation of the set
// by itself says, which is remembered.
//
// Not all micro-batches of a long pipeline are simulated. Of one route under 1F1B that passes units once, as many micro-batches more as
// there are units take as long as as many before, some time after all stages are at work: the sooner, the less they wait for each other.
// So twice as many at a time are simulated, until of two such periods the second one takes as long as the first; what is left takes as
// many more of these.
class LastBackwards {
 public:
  // Of `set`, a plan by itself (PartOfPlan), whose first route has `micro_batches`, on the devices of `alone` (RoutesAlone). `kind`: equal
  // only for those of which all but these micro-batches are alike. Errors as StepSimulator's.
  absl::StatusOr<LastBackwardsOfUnits> Of(const std::string& kind, const PlanningProblem& alone, Plan set);

 private:
  // With so many micro-batches on the first route.
  absl::StatusOr<LastBackwardsOfUnits> Simulated(const std::string& kind, const PlanningProblem& alone,
                                                 Plan& set, int micro_batches);

  std::unordered_map<std::string, LastBackwardsOfUnits> known_;
};

}  // namespace medley
