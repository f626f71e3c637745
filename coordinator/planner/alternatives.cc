#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/plan_variations.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/problem_check.h"
#include "coordinator/planner/search.h"
#include "coordinator/predictor/predict.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

Alternative BestEqualSplit(const PlanningProblem& problem, const SearchLimits& limits) {
  const int devices = static_cast<int>(problem.devices.size());
  const PlanConstraints& constraints = problem.constraints;
  ChosenPlan best;
  std::string description;
  const auto consider = [&](absl::StatusOr<Plan> grid, Schedule schedule, const std::string& what) {
    if (!grid.ok()) return;
    Plan& plan = *grid;
    plan.schedule = schedule;
    if (limits.stopped() || !constraints.Allow(devices, PricePerHour(problem, plan)) ||
        !FitsMemory(problem, plan))
      return;
    ++best.simulated_plans;
    const absl::StatusOr<double> seconds = PredictStepSeconds(problem, plan);
    if (!seconds.ok() || (!best.plan.units.empty() && *seconds >= best.step_seconds)) return;
    best.plan = plan;
    best.step_seconds = *seconds;
    description = absl::StrCat(what, ", micro-batch ", plan.routes[0].micro_batch_sequences, ", ",
                               NameOf(plan.schedule));
  };
  for (const int size : problem.micro_batch_sizes) {
    if (!DividesBatch(problem, size)) continue;
    for (const Schedule schedule : constraints.schedules) {
      if (constraints.max_stages == 0 || devices <= constraints.max_stages)
        consider(EvenGrid(problem, devices, 1, size), schedule,
                 "all devices in one pipeline, blocks split evenly");
      if (constraints.max_routes == 0 || devices <= constraints.max_routes)
        consider(EvenGrid(problem, 1, 1, size), schedule,
                 "all devices data parallel, micro-batches split evenly");
    }
  }
  if (best.plan.units.empty() && limits.stopped())
    return {PlanKind::kEqualSplit, absl::CancelledError("planning was stopped"), ""};
  if (best.plan.units.empty()) {
    return {PlanKind::kEqualSplit,
            absl::ResourceExhaustedError(constraints.limit_devices()
                                             ? "no equal split over all devices fits them and is allowed"
                                             : "no equal split over all devices fits them"),
            ""};
  }
  best.proven_optimal = !limits.stopped();  // they were all tried
  best.lower_bound_seconds = best.proven_optimal ? best.step_seconds : 0;
  return {PlanKind::kEqualSplit, best, description};
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
