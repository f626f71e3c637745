#include "coordinator/planner/classes/order_plans.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "coordinator/planner/techniques/orders.h"
#include "runtime/base/stop_flag.h"

namespace medley {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// So many plans are looked at that were judged under 1F1B, if they are not much slower there than the best; so many zones; and so many near
// the best of them.
constexpr int kMostOrdered = 14, kMostZones = 8, kMostImproved = 10;
constexpr double kNearUnordered = 1.1, kNearFastest = 1.03;
constexpr int kFewestToLearnFrom = 3;
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
  std::string text =
      absl::StrFormat("%s: predicted %.1f %% faster than the best plan under %s", orders,
                      100 * (named.step_seconds / step_seconds - 1), NameOf(named.plan.schedule));
  if (named.lower_bound_seconds > named.busy_seconds)
    absl::StrAppendFormat(&text, ", where none takes less than %.3g s", named.lower_bound_seconds);
  if (named.busy_seconds > 0)
    absl::StrAppendFormat(&text, "; in any order devices compute for %.3g s", named.busy_seconds);
  return text;
}

// In turn, of each power of two of replicas the best that is left: estimates of plans of unlike numbers are off by unlike parts.
std::vector<ClassedPlan> OfUnlikeReplicas(const std::vector<ClassedPlan>& plans) {
  std::map<int, int> seen;  // by how many bits the number has
  std::vector<std::pair<int, const ClassedPlan*>> in_turn;
  for (const ClassedPlan& plan : plans)
    in_turn.push_back({seen[std::bit_width(static_cast<unsigned>(plan.replicas()))]++, &plan});
  std::stable_sort(in_turn.begin(), in_turn.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ClassedPlan> sorted;
  for (const auto& [turn, plan] : in_turn) sorted.push_back(*plan);
  return sorted;
}

}  // namespace

void OrderPasses(PlanJudge& judge, MovesBetween moves, std::vector<JudgedPlan> plans,
                 const std::vector<ClassedPlan>& zones, const std::atomic<bool>* stop, PlanByClass& best) {
  const auto stopped = [&] { return IsStopped(stop); };
  const PlanByClass named = best;
  std::stable_sort(plans.begin(), plans.end(), IsFaster);
  std::vector<JudgedPlan> starts;  // the fastest of each kind
  int looked_at = 0, found = 0;
  // Of those that were found so far, the least part by which one took longer than it was estimated to at least.
  double least_over = kNever;
  // Those that are not to be faster are passed over.
  const auto look_at = [&](const std::vector<ClassedPlan>& of, int most) {
    double last_seconds = 0;
    int alike = 0, of_these = 0, work = 0;
    JudgedPlan fastest{{}, kNever};
    for (const ClassedPlan& plan : of) {
      if (stopped() || of_these == most) break;
      const double over = found < kFewestToLearnFrom ? 1 : std::max(1.0, (1 + least_over) / 2);
      if (plan.estimated_seconds * over >= best.step_seconds) continue;
      alike = plan.estimated_seconds < (1 + kAlikeSteps) * last_seconds ? alike + 1 : 1;
      if (alike > kMostAlike) continue;
      last_seconds = plan.estimated_seconds;
      work += PassesOf(plan);
      if (work > kOrderingWork && of_these >= kFewest) break;
      ++of_these;
      const double seconds = judge.OrderedStepSeconds(moves.table_of(plan.replicas()), plan);
      if (seconds == kNever) continue;
      ++found;
      least_over = std::min(least_over, seconds / plan.estimated_seconds);
      if (seconds < fastest.step_seconds) fastest = {plan, seconds};
    }
    looked_at += of_these;
    if (fastest.step_seconds < kNever) starts.push_back(std::move(fastest));
  };
  look_at(OfUnlikeReplicas(zones), kMostZones);
  std::vector<ClassedPlan> unordered;
  for (JudgedPlan& plan : plans) {
    if (plan.step_seconds > kNearUnordered * named.step_seconds) break;
    plan.plan.estimated_seconds = moves.estimate(moves.table_of(plan.plan.replicas()), plan.plan);
    unordered.push_back(std::move(plan.plan));
  }
  look_at(unordered, kMostOrdered);
  // Also if plans under 1F1B are faster than those.
  moves.predict = [&](const StageTable& table, const ClassedPlan& plan) {
    return judge.OrderedStepSeconds(table, plan);
  };
  LocalSearch search(std::move(moves), stop);
  for (const JudgedPlan& start : starts) {
    if (start.step_seconds > kNearFastest * best.step_seconds) continue;
    search.ImproveFrom(start.plan, start.step_seconds,
                       std::clamp(kImprovingWork / PassesOf(start.plan), kFewest, kMostImproved));
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
