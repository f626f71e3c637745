#include "coordinator/planner/fastest_plan.h"

#include <utility>

#include "absl/strings/str_cat.h"
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
    text = absl::StrCat(DeviceOf(plan, rank), " would lack ", FormatBytes(lacks),
                        lacks == BufferExcess(memory, room) ? " in its largest buffer" : " of memory");
  }
  return text;
}

}  // namespace

FastestPlan::FastestPlan(PlanKind kind, const PlanningProblem& problem, const SearchLimits& limits)
    : problem_(problem),
      limits_(limits),
      seconds_(problem),
      best_{kind, absl::CancelledError("planning was stopped"), ""} {}

void FastestPlan::Try(const absl::StatusOr<Plan>& plan, const std::string& description) {
  if (limits_.stopped()) return;
  if (!plan.ok()) return Refuse(plan.status());
  if (const std::string objection = ConstraintObjection(problem_, *plan); !objection.empty())
    return Refuse(absl::ResourceExhaustedError(objection));
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

Alternative FastestPlan::Take() {
  if (best_.plan.ok()) {
    best_.plan->simulated_plans = looked_at_;
  } else if (too_large_) {
    // What does not fit says more than what cannot be.
    best_.plan = absl::ResourceExhaustedError(ShortageOf(problem_, *too_large_));
  } else if (!limits_.stopped()) {
    Refuse(absl::ResourceExhaustedError("no micro-batch size of the plan divides the global batch"));
  }
  return std::move(best_);
}

void FastestPlan::Refuse(const absl::Status& why) {
  if (absl::IsCancelled(best_.plan.status())) best_.plan = absl::ResourceExhaustedError(why.message());
}

}  // namespace medley
