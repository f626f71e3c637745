#include "coordinator/planner/classes/order_plans.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "coordinator/planner/techniques/orders.h"
#include "runtime/base/stop_flag.h"

namespace medley {
namespace {

// So many plans are looked at, if they are no slower than that under 1F1B; so many of bundles; and so many near the best of them.
constexpr int kMostOrdered = 14;
constexpr size_t kMostBundles = 6;
constexpr double kNearUnordered = 1.1;
constexpr int kMostImproved = 10;
// Orders of long routes take long to find, so of few such plans: of so many micro-batches at stages in all, but of some at least.
constexpr int kOrderingWork = 30'000, kImprovingWork = 20'000, kFewest = 3;
// Of plans that take as long, most of which differ by what does not matter, two are looked at.
constexpr double kAlikeSteps = 1e-5;
constexpr int kMostAlike = 2;

// Of the longest of its routes, how often a micro-batch passes a stage.
int PassesOf(const ClassedPlan& plan) {
  int most = 1;
  for (const ShapedRoutes& of : plan.routes)
    most = std::max(most, of.micro_batches * static_cast<int>(of.shape.stages.size()));
  return most;
}

std::string Describe(const std::string& orders, const PlanByClass& named, double step_seconds) {
  std::string text = absl::StrFormat("%s: predicted %.1f %% faster than the best plan under 1f1b", orders,
                                     100 * (named.step_seconds / step_seconds - 1));
  if (named.lower_bound_seconds > 0)
    absl::StrAppendFormat(&text, ", where none takes less than %.3g s", named.lower_bound_seconds);
  if (named.busy_seconds > 0)
    absl::StrAppendFormat(&text, "; in any order devices compute for %.3g s", named.busy_seconds);
  return text;
}

}  // namespace

void OrderPasses(PlanJudge& judge, MovesBetween moves, std::vector<JudgedPlan> plans,
                 const std::vector<ClassedPlan>& bundles, const std::atomic<bool>* stop, PlanByClass& best) {
  const auto stopped = [&] { return IsStopped(stop); };
  const PlanByClass named = best;
  std::stable_sort(plans.begin(), plans.end(), IsFaster);
  const ClassedPlan* fastest = nullptr;
  int looked_at = 0, alike = 0, work = 0;
  double last_seconds = 0;
  const auto look_at = [&](const ClassedPlan& plan) {
    const double before = best.step_seconds;
    judge.OrderedStepSeconds(moves.table_of(plan.replicas()), plan);
    if (best.step_seconds < before) fastest = &plan;
  };
  for (const JudgedPlan& plan : plans) {
    alike = plan.step_seconds < (1 + kAlikeSteps) * last_seconds ? alike + 1 : 1;
    if (alike > kMostAlike) continue;
    last_seconds = plan.step_seconds;
    if (stopped() || looked_at == kMostOrdered || plan.step_seconds > kNearUnordered * named.step_seconds)
      break;
    work += PassesOf(plan.plan);
    if (work > kOrderingWork && looked_at >= kFewest) break;
    ++looked_at;
    look_at(plan.plan);
  }
  for (size_t i = 0; i < std::min(bundles.size(), kMostBundles) && !stopped(); ++i) {
    if (bundles[i].estimated_seconds >= best.step_seconds) break;
    ++looked_at;
    look_at(bundles[i]);
  }
  if (fastest != nullptr) {
    moves.predict = [&](const StageTable& table, const ClassedPlan& plan) {
      return judge.OrderedStepSeconds(table, plan);
    };
    LocalSearch(std::move(moves), stop)
        .ImproveFrom(*fastest, best.step_seconds,
                     std::clamp(kImprovingWork / PassesOf(*fastest), kFewest, kMostImproved));
  }
  if (!stopped()) judge.CutIntoRanges();
  if (best.step_seconds <= (1 - kLeastGain) * named.step_seconds) {
    best.orders = Describe(judge.orders(), named, best.step_seconds);
    return;
  }
  best = named;
  best.orders = stopped()
                    ? "as the schedule says: planning was stopped before an order was found that is faster"
                    : DescribeNoOrder(looked_at);
}

}  // namespace medley
