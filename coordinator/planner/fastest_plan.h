#pragma once
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/seconds_of_plan.h"
#include "coordinator/predictor/cost_model.h"

namespace medley {

// The fastest of plans of one kind that fits the memory of the problem's devices and that the constraints allow, one after another. Keeps
// references to `problem` and `limits`, which must outlive it.
class FastestPlan {
 public:
  FastestPlan(PlanKind kind, const PlanningProblem& problem, const SearchLimits& limits);

  // An error says why there is no such plan. Nothing once planning was stopped.
  void Try(const absl::StatusOr<Plan>& plan, const std::string& description);

  // Once. ResourceExhausted: what the first that does not fit lacks, or why the first was none. Cancelled: planning was stopped before
  // any was tried.
  Alternative Take();

 private:
  void Refuse(const absl::Status& why);

  const PlanningProblem& problem_;
  const SearchLimits& limits_;
  SecondsOfPlans seconds_;
  int looked_at_ = 0;
  std::optional<Plan> too_large_;  // the first
  Alternative best_;
};

}  // namespace medley
