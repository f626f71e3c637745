#include "coordinator/planner/planner.h"

#include "absl/strings/str_cat.h"
#include "coordinator/planner/problem_check.h"
#include "coordinator/planner/search.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::StatusOr<ChosenPlan> ChoosePlan(const PlanningProblem& problem, const SearchLimits& limits) {
  RETURN_IF_ERROR(CheckProblem(problem));
  return Search(problem, SearchSpace{}, limits).Run();
}

}  // namespace medley
