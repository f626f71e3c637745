// Plans that a plan is held against: those next to it, and the even split of many devices.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/fastest_plan.h"
#include "coordinator/planner/plan_variations.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/seconds_of_plan.h"
#include "coordinator/planner/techniques/optimizer_shares.h"
#include "coordinator/planner/techniques/unit_order.h"
#include "runtime/base/counted.h"

namespace medley {
namespace {

Alternative MoreTensorParallelism(const PlanningProblem& problem, const Plan& plan,
                                  const SearchLimits& limits) {
  FastestPlan fastest(PlanKind::kMoreTensorParallelism, problem, limits);
  fastest.Try(WithMoreTensorParallelism(problem, plan),
              "the same with pairs of devices that share the width of what they hold");
  return fastest.Take();
}

int LongestRoute(const Plan& plan) {
  size_t stages = 0;
  for (const Route& route : plan.routes) stages = std::max(stages, route.units.size());
  return static_cast<int>(stages);
}

Alternative FewerStages(const PlanningProblem& problem, int stages, const SearchLimits& limits) {
  PlanningProblem shorter = problem;
  shorter.constraints.max_stages = stages;
  Alternative alternative{PlanKind::kFewerStages, ChoosePlan(shorter, limits.OfComparison()), ""};
  if (!alternative.plan.ok()) return alternative;
  const Plan& plan = alternative.plan->plan;
  const absl::StatusOr<double> seconds = SecondsOfPlans(problem).Of(plan);
  if (seconds.ok()) alternative.plan->step_seconds = *seconds;
  const bool by_class = problem.devices.size() > kMostSearchedDevices && !alternative.plan->fitting.empty();
  alternative.description = by_class ? alternative.plan->fitting : Describe(plan);
  return alternative;
}

Alternative ShardedParameters(const PlanningProblem& problem, const Plan& plan, const SearchLimits& limits) {
  FastestPlan fastest(PlanKind::kShardedParameters, problem, limits);
  const auto try_shares = [&](const absl::StatusOr<Plan>& sharded, const std::string& description) {
    fastest.Try(sharded, description);
    if (!sharded.ok()) return;
    const Plan by_speed = WithOptimizerSharesBySpeed(problem, *sharded);
    if (!(by_speed == *sharded)) fastest.Try(by_speed, absl::StrCat(description, ", the faster ones more"));
  };
  try_shares(WithShardedParameters(problem, plan), "the same with parameters sharded over their holders");
  for (const int size : problem.micro_batch_sizes) {
    if (!DividesBatch(problem, size)) continue;
    try_shares(FullyShardedReplicas(problem, size),
               absl::StrCat("fully sharded data parallel, micro-batch ", size));
  }
  return fastest.Take();
}

}  // namespace

Alternative EvenSplitOfMany(const PlanningProblem& problem, const SearchLimits& limits) {
  FastestPlan fastest(PlanKind::kEqualSplit, problem, limits);
  const int devices = static_cast<int>(problem.devices.size());
  const std::vector<Schedule>& schedules = problem.constraints.schedules;
  const bool has_1f1b = std::count(schedules.begin(), schedules.end(), Schedule::kOneForwardOneBackward) > 0;
  for (int degree = 1; degree <= devices; degree *= 2) {
    for (int stages = 1; stages * degree <= devices && stages <= problem.shape.model.blocks(); stages *= 2) {
      for (const int size : problem.micro_batch_sizes) {
        if (!DividesBatch(problem, size)) continue;
        absl::StatusOr<Plan> plan = EvenGrid(problem, stages, degree, size);
        if (plan.ok() && !has_1f1b) plan->schedule = schedules.front();
        for (const bool shards : {false, true}) {
          if (shards && !problem.constraints.saves_memory) continue;
          if (plan.ok()) {
            plan->shards_optimizer = shards;
            plan = WithUnitsByHost(problem, *std::move(plan));
          }
          fastest.Try(plan, absl::StrCat(Counted(devices / (stages * degree), "route"), " of ",
                                         Counted(stages, "stage"),
                                         degree == 1 ? "" : absl::StrCat(" of ", degree, " devices"),
                                         ", blocks and micro-batches split evenly, micro-batch ", size,
                                         shards ? ", optimizer sharded" : ""));
        }
      }
    }
  }
  return fastest.Take();
}

std::vector<Alternative> NearbyPlans(const PlanningProblem& problem, const Plan& plan,
                                     const SearchLimits& limits) {
  std::vector<Alternative> nearby;
  nearby.push_back(MoreTensorParallelism(problem, plan, limits));
  if (const int stages = LongestRoute(plan); stages > 1)
    nearby.push_back(FewerStages(problem, stages - 1, limits));
  nearby.push_back(ShardedParameters(problem, plan, limits));
  return nearby;
}

}  // namespace medley
