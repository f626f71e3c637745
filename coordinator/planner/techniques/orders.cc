#include "coordinator/planner/techniques/orders.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/planner/techniques/order_problem.h"
#include "coordinator/planner/techniques/ranges.h"
#include "coordinator/predictor/predict.h"
#include "runtime/base/stop_flag.h"
#include "runtime/ir/plan/unit_op.h"
#include "runtime/ir/program/evaluate_orders.h"
#include "runtime/ir/program/memory.h"
#include "runtime/ir/program/order_bound.h"
#include "runtime/ir/program/synthesise_orders.h"

namespace medley {
namespace {

using Kind = UnitOp::Kind;

// Passes simulated for one plan, about; how often memory is lent less where what arrives early does not fit beside the rest.
constexpr int64_t kWorkLimit = 250'000;
constexpr int kAttempts = 6;
// So many of the fastest pipelines are looked at with several ranges a unit.
constexpr size_t kMostInRanges = 6;

// Lends units that do not fit `times` as much less as they lack. Whether all fit.
bool TightenWhereItLacks(const PlanningProblem& problem, const Plan& plan, double times,
                         std::vector<double>& memory_limit) {
  bool fits = true;
  for (Rank rank = 0; rank < RankCount(plan); ++rank) {
    const RankMemory memory = MemoryOfRank(plan, rank, problem.shape);
    const Bytes left = LeftFor(memory, RoomOf(problem, plan, rank));
    if (memory.total() <= left) continue;
    fits = false;
    memory_limit[PlaceOf(plan, rank).unit] -= times * static_cast<double>((memory.total() - left).value);
  }
  return fits;
}

// Where the gradient of weights takes no time, it comes with that of the input: nothing is put off for nothing.
void JoinWhatTakesNoTime(const TimedPipeline& pipeline, std::vector<UnitOrder>& orders) {
  std::vector<std::vector<bool>> takes_time(pipeline.units);  // of each unit's visits
  for (const TimedRoute& route : pipeline.routes) {
    for (const TimedStage& stage : route.stages)
      takes_time[stage.unit].push_back(stage.weight_gradient_seconds > 0);
  }
  for (int u = 0; u < pipeline.units; ++u) {
    const auto joins = [&](const UnitOp& op) { return !takes_time[u][op.visit]; };
    std::erase_if(orders[u], [&](const UnitOp& op) { return op.kind == Kind::kWeightGradient && joins(op); });
    for (UnitOp& op : orders[u]) {
      if (op.kind == Kind::kInputGradient && joins(op)) op.kind = Kind::kBackward;
    }
  }
}

bool MayGoAhead(const Plan& plan) {
  return !plan.shards_optimizer && std::none_of(plan.units.begin(), plan.units.end(), [](const Unit& unit) {
    return unit.has_windows() || unit.activations_home != ActivationsHome::kDevice;
  });
}

// `plan` with post-validation, in which units make some forwards more ahead of the norms than they have time for if
// none waits for a message or for its update: as many as make steps shortest.
std::optional<PredictedPlan> BestAhead(const PlanningProblem& problem, Plan plan,
                                       const std::vector<int>& ahead) {
  constexpr int kMostMore = 3;
  plan.post_validation = true;
  std::optional<PredictedPlan> best;
  for (int more = 0; more <= kMostMore; ++more) {
    for (size_t u = 0; u < plan.units.size(); ++u) plan.units[u].forwards_ahead = ahead[u] + more;
    const absl::StatusOr<double> seconds = PredictStepSeconds(problem, plan);
    if (seconds.ok() && (!best || *seconds < best->step_seconds)) best = {plan, *seconds};
  }
  return best;
}

}  // namespace

Plan WithoutOrders(Plan plan) {
  plan.schedule = Schedule::kOneForwardOneBackward;
  plan.post_validation = false;
  for (Unit& unit : plan.units) {
    unit.order.clear();
    unit.paces.clear();
    unit.forwards_ahead = -1;
  }
  return plan;
}

bool HasPipeline(const Plan& plan) {
  return std::any_of(plan.routes.begin(), plan.routes.end(),
                     [](const Route& route) { return route.units.size() > 1; });
}

std::optional<PredictedPlan> WithSynthesisedOrder(const PlanningProblem& problem, const Plan& plan,
                                                  double below_seconds, OrderGoal goal) {
  const absl::StatusOr<OrderProblem> made = MakeOrderProblem(problem, plan);
  if (!made.ok()) return std::nullopt;
  SynthesisOptions options = {
      .memory_limit = made->memory_limit, .in_buffers = true, .goal = goal, .work_limit = kWorkLimit};
  // What arrives early is kept beside what the order keeps, and changes with it.
  double times = 1;
  for (int attempt = 0; attempt < kAttempts; ++attempt, times *= 2) {
    if (LeastSeconds(made->pipeline, options.memory_limit, options.goal) >= below_seconds) break;
    SynthesisedOrders found = SynthesiseOrders(made->pipeline, options);
    if (found.orders.empty()) break;
    JoinWhatTakesNoTime(made->pipeline, found.orders);
    std::vector<int> ahead;
    if (goal == OrderGoal::kPeriod) ahead = ForwardsBeforeNorms(made->pipeline, found.orders);
    Plan listed = WithOrders(plan, std::move(found.orders));
    SetPaces(made->pipeline, listed);
    if (goal == OrderGoal::kPeriod) {
      if (std::optional<PredictedPlan> best = BestAhead(problem, listed, ahead); best) listed = best->plan;
    }
    if (!TightenWhereItLacks(problem, listed, times, options.memory_limit)) continue;
    const absl::StatusOr<double> seconds = PredictStepSeconds(problem, listed);
    if (!seconds.ok() || *seconds >= below_seconds) break;
    return PredictedPlan{std::move(listed), *seconds};
  }
  return std::nullopt;
}

int MostRanges(const Plan& plan) {
  size_t most = 1;
  for (const Unit& unit : plan.units) most = std::max(most, unit.chunks.size());
  return static_cast<int>(most);
}

void TryInRanges(const PlanningProblem& problem, const Plan& plan, PredictedPlan& best) {
  if (problem.constraints.max_stages > 0) return;
  for (const int ranges : {2, 3}) {
    for (const RangeOrder order : {RangeOrder::kThereAndBack, RangeOrder::kOver}) {
      const std::optional<Plan> cut = InRanges(problem, plan, ranges, order);
      if (!cut) continue;
      std::optional<PredictedPlan> listed =
          WithSynthesisedOrder(problem, *cut, (1 - kLeastGain) * best.step_seconds);
      if (listed) best = *std::move(listed);
    }
  }
}

std::optional<PredictedPlan> BestSynthesised(const PlanningProblem& problem,
                                             const std::vector<PredictedPlan>& plans,
                                             const PredictedPlan& named, const std::atomic<bool>* stop) {
  std::optional<PredictedPlan> best;
  for (const PredictedPlan& each : plans) {
    if (IsStopped(stop)) break;
    const bool may_go_ahead = problem.constraints.post_validation && MayGoAhead(each.plan);
    for (const OrderGoal goal : {OrderGoal::kMakespan, OrderGoal::kPeriod}) {
      if (goal == OrderGoal::kPeriod && !may_go_ahead) continue;
      const double below = best ? best->step_seconds * (goal == OrderGoal::kPeriod ? 1 - kLeastGain : 1)
                                : named.step_seconds * (1 - kLeastGain);
      std::optional<PredictedPlan> listed = WithSynthesisedOrder(problem, each.plan, below, goal);
      if (listed) best = std::move(listed);
    }
  }
  if (!best) best = named;
  for (size_t i = 0; i < std::min(plans.size(), kMostInRanges) && !IsStopped(stop); ++i)
    TryInRanges(problem, plans[i].plan, *best);
  if (best->plan == named.plan) return std::nullopt;
  return best;
}

std::string DescribeOrder(const PlanningProblem& problem, const PredictedPlan& chosen,
                          const PredictedPlan& named, bool named_is_proven) {
  const auto faster_than = [&](double seconds) {
    return absl::StrFormat("%.1f %%", 100 * (seconds / chosen.step_seconds - 1));
  };
  std::string text = "synthesised";
  if (const int ranges = MostRanges(chosen.plan); ranges > 1)
    absl::StrAppend(&text, ", for up to ", ranges, " ranges of blocks a unit");
  absl::StrAppend(&text, ": predicted ");
  const Plan same = WithoutOrders(chosen.plan);
  const absl::StatusOr<double> seconds = PredictStepSeconds(problem, same);
  if (seconds.ok() && !(same == named.plan) && FitsMemory(problem, same))
    absl::StrAppend(&text, faster_than(*seconds), " faster than the same plan under 1f1b, and ");
  absl::StrAppend(&text, faster_than(named.step_seconds), " faster than ");
  if (same == named.plan) {
    absl::StrAppend(&text, "under 1f1b, the best plan with a named schedule");
  } else {
    absl::StrAppend(&text, "the best plan with a named schedule");
  }
  if (chosen.plan.post_validation)
    absl::StrAppend(&text, ", in steps that go ahead of the norms of all where nothing is clipped");
  absl::StrAppend(&text, named_is_proven ? " (proven to be the best of those)" : " that was found",
                  "; nothing is proven of plans with orders of their own");
  return text;
}

std::string DescribeNoOrder(size_t plans) {
  if (plans == 0)
    return "as the schedule says: among the best plans is no pipeline whose passes could go in another order";
  return absl::StrFormat(
      "as the schedule says: none synthesised, for the %s, is predicted to be "
      "faster by more than %.1f %%; what is proven is proven of named schedules",
      plans == 1 ? "best pipeline" : absl::StrCat(plans, " best pipelines"), 100 * kLeastGain);
}

}  // namespace medley
