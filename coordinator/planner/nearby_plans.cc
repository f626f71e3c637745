// Plans that a plan is held against: those next to it, and the even split of many devices.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/planner/plan_variations.h"
#include "coordinator/planner/planner.h"
#include "coordinator/planner/seconds_of_plan.h"
#include "coordinator/predictor/predict.h"
#include "runtime/base/bytes.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

// What a plan that does not fit lacks most.
std::string ShortageOf(const PlanningProblem& problem, const Plan& plan) {
  Bytes most;
  std::string text = "the memory of a host is not enough";
  RankMemories memories(plan, problem.shape);
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    const RankMemory& memory = memories.Of(rank);
    const DeviceRoom room = RoomOf(problem, plan, rank);
    const Bytes lacks = memory.total() - LeftFor(memory, room);
    if (lacks <= most) continue;
    most = lacks;
    text = absl::StrCat(DeviceOf(plan, rank), " would lack ", FormatBytes(lacks), " of memory");
  }
  return text;
}

// One after another; the fastest that fits.
class Fastest {
 public:
  Fastest(PlanKind kind, const PlanningProblem& problem, const SearchLimits& limits)
      : problem_(problem),
        limits_(limits),
        seconds_(problem),
        best_{kind, absl::CancelledError("planning was stopped"), ""} {}

  void Try(const absl::StatusOr<Plan>& plan, const std::string& description) {
    if (limits_.stopped()) return;
    if (!plan.ok()) return Refuse(plan.status());
    ++looked_at_;
    const absl::StatusOr<double> seconds = seconds_.Of(*plan);
    if (!seconds.ok()) return Refuse(seconds.status());
    if (best_.plan.ok() && *seconds >= best_.plan->step_seconds) return;
    if (!FitsMemory(problem_, *plan)) {
      if (!too_large_) too_large_ = *plan;
      return;
    }
    best_.plan = ChosenPlan{.plan = *plan, .step_seconds = *seconds};
    best_.description = description;
  }

  Alternative Take() {
    if (best_.plan.ok()) {
      best_.plan->simulated_plans = looked_at_;
    } else if (too_large_) {
      // What does not fit says more than what cannot be.
      best_.plan = absl::ResourceExhaustedError(ShortageOf(problem_, *too_large_));
    }
    return std::move(best_);
  }

 private:
  void Refuse(const absl::Status& why) {
    if (absl::IsCancelled(best_.plan.status())) best_.plan = why;
  }

  const PlanningProblem& problem_;
  const SearchLimits& limits_;
  SecondsOfPlans seconds_;
  int looked_at_ = 0;
  std::optional<Plan> too_large_;  // the first
  Alternative best_;
};

Alternative MoreTensorParallelism(const PlanningProblem& problem, const Plan& plan,
                                  const SearchLimits& limits) {
  Fastest fastest(PlanKind::kMoreTensorParallelism, problem, limits);
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
  Fastest fastest(PlanKind::kShardedParameters, problem, limits);
  fastest.Try(WithShardedParameters(problem, plan), "the same with parameters sharded over their holders");
  for (const int size : problem.micro_batch_sizes) {
    if (!DividesBatch(problem, size)) continue;
    fastest.Try(FullyShardedReplicas(problem, size),
                absl::StrCat("fully sharded data parallel, micro-batch ", size));
  }
  return fastest.Take();
}

}  // namespace

Alternative EvenSplitOfMany(const PlanningProblem& problem, const SearchLimits& limits) {
  Fastest fastest(PlanKind::kEqualSplit, problem, limits);
  const int devices = static_cast<int>(problem.devices.size());
  for (int degree = 1; degree <= devices; degree *= 2) {
    for (int stages = 1; stages * degree <= devices && stages <= problem.shape.model.blocks(); stages *= 2) {
      for (const int size : problem.micro_batch_sizes) {
        if (!DividesBatch(problem, size)) continue;
        absl::StatusOr<Plan> plan = EvenGrid(problem, stages, degree, size);
        for (const bool shards : {false, true}) {
          if (shards && !problem.constraints.saves_memory) continue;
          if (plan.ok()) plan->shards_optimizer = shards;
          fastest.Try(plan, absl::StrCat(devices / (stages * degree), " routes of ", stages,
                                         stages == 1 ? " stage" : " stages",
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
