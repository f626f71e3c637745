#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/fastest_plan.h"
#include "coordinator/planner/plan_variations.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_check.h"
#include "coordinator/planner/search.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

Alternative BestEqualSplit(const PlanningProblem& problem, const SearchLimits& limits) {
  FastestPlan fastest(PlanKind::kEqualSplit, problem, limits);
  for (const int size : problem.micro_batch_sizes) {
    if (!DividesBatch(problem, size)) continue;
    for (const Schedule schedule : problem.constraints.schedules) {
      const auto try_grid = [&](int stages, const char* what) {
        absl::StatusOr<Plan> grid = EvenGrid(problem, stages, /*degree=*/1, size);
        if (grid.ok()) grid->schedule = schedule;
        fastest.Try(grid, absl::StrCat(what, ", micro-batch ", size, ", ", NameOf(schedule)));
      };
      try_grid(static_cast<int>(problem.devices.size()), "all devices in one pipeline, blocks split evenly");
      try_grid(1, "all devices data parallel, micro-batches split evenly");
    }
  }
  return fastest.Take();
}

Alternative BestOf(PlanKind kind, const PlanningProblem& problem, const SearchSpace& space,
                   const SearchLimits& limits) {
  const std::vector<int>& sizes = problem.micro_batch_sizes;
  const auto divides = [&](int size) { return DividesBatch(problem, size); };
  if (std::none_of(sizes.begin(), sizes.end(), divides)) {
    return {kind, absl::ResourceExhaustedError("no micro-batch size of the plan divides the global batch"),
            ""};
  }
  Alternative alternative{kind, Search(problem, space, limits).Run(), ""};
  if (alternative.plan.ok()) alternative.description = Describe(alternative.plan->plan);
  return alternative;
}

}  // namespace

std::string NameOf(PlanKind kind) {
  switch (kind) {
    case PlanKind::kSingleDevice:
      return "single device";
    case PlanKind::kEqualSplit:
      return "equal split";
    case PlanKind::kPureDataParallel:
      return "pure data parallel";
    case PlanKind::kPurePipeline:
      return "pure pipeline";
    case PlanKind::kMoreTensorParallelism:
      return "more tensor parallelism";
    case PlanKind::kFewerStages:
      return "fewer stages";
    case PlanKind::kShardedParameters:
      return "sharded parameters";
  }
  return "?";
}

absl::StatusOr<std::vector<Alternative>> BestOfEachKind(const PlanningProblem& whole_problem,
                                                        const SearchLimits& limits) {
  RETURN_IF_ERROR(CheckProblem(whole_problem));
  const PlanningProblem problem = OnDevicesOfWholeBlocks(whole_problem);
  std::vector<Alternative> all;
  if (problem.devices.empty()) {
    for (const PlanKind kind : {PlanKind::kSingleDevice, PlanKind::kEqualSplit, PlanKind::kPureDataParallel,
                                PlanKind::kPurePipeline}) {
      all.push_back({kind, absl::ResourceExhaustedError("no device was measured with whole blocks"), ""});
    }
    return all;
  }
  all.push_back(BestOf(PlanKind::kSingleDevice, problem, {.max_routes = 1, .max_stages = 1}, limits));
  all.push_back(BestEqualSplit(problem, limits));
  all.push_back(BestOf(PlanKind::kPureDataParallel, problem, {.min_routes = 2, .max_stages = 1}, limits));
  all.push_back(BestOf(PlanKind::kPurePipeline, problem, {.max_routes = 1, .min_stages = 2}, limits));
  return all;
}

}  // namespace medley
